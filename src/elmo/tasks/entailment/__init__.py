"""Whether one sentence follows from another (SNLI, MultiNLI, SICK)."""
