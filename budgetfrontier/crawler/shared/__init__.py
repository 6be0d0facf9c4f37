"""Crawls on the frontier of another process, which several crawlers share."""
