"""Quotas: the crawl-wide limits in slices, which one partition grants to all. Pure rules."""
