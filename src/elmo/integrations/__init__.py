"""ELMo inside other people's libraries. Nothing in the core imports from here."""
