"""The paper's six tasks: readers, models, metrics, one training loop (paper, sections 4 and 5)."""
