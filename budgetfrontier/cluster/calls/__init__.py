"""Calls of clients to the owners of partitions, which are found, asked, and asked again elsewhere."""
