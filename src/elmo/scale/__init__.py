"""Corpora past one process: Arrow record batches in and out, for whichever engine moves them."""
