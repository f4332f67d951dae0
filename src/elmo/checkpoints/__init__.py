"""Files <-> BiLM, one file per format. Other people's names live here and nowhere else."""
