"""Text -> batches of ids. Imports no model."""
