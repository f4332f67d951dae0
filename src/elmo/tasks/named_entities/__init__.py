"""Names of people, places and organisations (CoNLL-2003)."""
