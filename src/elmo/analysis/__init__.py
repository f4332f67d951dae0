"""The paper's analyses: one file per table or figure (section 5), each of which any biLM can be given to."""
