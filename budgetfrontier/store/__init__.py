"""The LMDB environment, what its keys and records look like, and what a reader sees in it."""
