"""Files on disk: atomic writes, locks between processes, digests, and readers with limits."""
