"""Names of people, places and organizations (CoNLL-2003)."""
