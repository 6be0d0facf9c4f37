"""A polite crawler on top of the engine: the engine decides what to fetch next and when, this package fetches it.

It needs the extra `crawl`. Import its modules by name. `job.py` connects them, and is the one to read first.
"""
