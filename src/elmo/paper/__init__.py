"""What the paper reports: one file per table or figure (section 5), each for any biLM."""
