from known_encoder import encoder
from sense_files import senses_folder, wordnet_folder

__all__ = ["encoder", "senses_folder", "wordnet_folder"]
