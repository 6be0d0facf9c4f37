"""A polite crawler on the frontier: what to fetch next, and when, is the engine's; this package fetches.

It needs the extra `crawl`; import its modules by name. `job.py` ties them together and is the place to start reading.
"""
