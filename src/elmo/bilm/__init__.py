"""Character ids -> layers: the bidirectional language model (paper, section 3.1)."""
