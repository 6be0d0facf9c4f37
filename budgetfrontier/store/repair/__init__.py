"""The repair of a damaged frontier: what can be read of its pages is written to a new file, which replaces it."""
