import torch

from elmo.bilm import ops
from elmo.bilm.config import CharCnnConfig
from elmo.bilm.token_encoder import CharCnn, Highway
from elmo.text.characters import CharacterScheme
from elmo.text.indexer import TokenIndexer

WORDS = ["a", "word", "", "x" * 60, "日本語", "<S>", "y" * 45]


def encode_everything(char_cnn: CharCnn, characters: torch.Tensor) -> torch.Tensor:
    """The encoder without shortening: all 50 positions, as the old tools computed it."""
    embedded = char_cnn.embedding(characters).transpose(1, 2)
    found = [torch.relu(convolution(embedded)).amax(dim=-1) for convolution in char_cnn.convolutions]
    result = torch.cat(found, dim=-1)
    for highway in char_cnn.highways:
        result = highway(result)
    return result


def test_leaving_padding_off_changes_nothing() -> None:
    torch.manual_seed(0)
    scheme = CharacterScheme.utf8()
    char_cnn = CharCnn(CharCnnConfig(character_dim=4, filters=((1, 3), (4, 5), (7, 8)), num_highway=2), scheme)
    whole = torch.tensor([scheme.encode_word(word) for word in WORDS])
    for words in ([word] for word in WORDS):
        short = TokenIndexer(scheme, None).word_table(words).characters
        row = WORDS.index(words[0])
        expected = encode_everything(char_cnn, whole[row : row + 1])
        torch.testing.assert_close(char_cnn(short), expected, rtol=0, atol=1e-6)
        torch.testing.assert_close(char_cnn(whole[row : row + 1]), expected, rtol=0, atol=1e-6)
    padded = ops.pad_words(char_cnn.words(whole[:1]), char_cnn.config.filters)
    assert padded.shape[1] == 3 + 7, "one letter, two boundaries and seven paddings are enough"


def test_a_closed_highway_passes_its_input_on() -> None:
    highway = Highway(4)
    torch.nn.init.constant_(highway.carry.bias, -100.0)
    x = torch.randn(3, 4)
    torch.testing.assert_close(highway(x), x)
    torch.nn.init.constant_(highway.carry.bias, 100.0)
    torch.testing.assert_close(highway(x), torch.relu(highway.transform(x)))
