"""Its presence puts this folder on the path, for `from references import ...`."""
