"""Parts that the task models are built from."""
