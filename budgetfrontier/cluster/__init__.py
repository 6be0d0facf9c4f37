"""A crawl in partitions: each is a frontier that one worker has open, rebuilt from its log if the worker is lost."""

from __future__ import annotations
