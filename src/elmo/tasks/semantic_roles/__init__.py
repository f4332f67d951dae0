"""Who did what to whom: the arguments of a predicate (PropBank)."""
