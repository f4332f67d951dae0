"""Which mentions of a text mean the same thing (OntoNotes)."""
