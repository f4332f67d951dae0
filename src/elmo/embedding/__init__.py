"""Text -> vectors -> files."""
