"""`budgetfrontier demo`: a synthetic web with crawler traps (web), and a crawl of it (run)."""

from __future__ import annotations

from budgetfrontier.crawler import installed as _installed  # noqa: F401
