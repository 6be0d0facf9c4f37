"""Directory of a crawl: owners of partitions, their summaries, and offers of copies, on topics that all have."""
