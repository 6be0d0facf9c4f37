"""Operators' view of a crawl in partitions: questions and commands to all of them, with one answer."""
