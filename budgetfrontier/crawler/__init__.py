"""A polite crawler on top of the engine: the engine chooses each URI and its time, this package fetches it.

It needs the extra `crawl`. Import its modules by name. Read `job.py` first: it connects them.
"""
