"""Storage in LMDB: the environment, the layout of keys and records, and reading."""
