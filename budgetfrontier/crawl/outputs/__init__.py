"""What a crawl writes: logs, pages, links, archives."""

from __future__ import annotations
