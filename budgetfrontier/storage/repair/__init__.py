"""The repair of a damaged frontier: its readable records are written to a new file, which replaces the old one."""
