"""The routes, one file for each family of clients."""
