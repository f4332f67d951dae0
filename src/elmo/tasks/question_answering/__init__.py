"""Which words of a text answer a question (SQuAD)."""
