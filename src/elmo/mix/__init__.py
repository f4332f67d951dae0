"""Layers -> one vector per token (paper, section 3.2)."""
