"""The check that the extra "crawl" is installed: modules that programs import begin with it."""

from __future__ import annotations

from budgetfrontier.errors import check_extra

check_extra("crawl", "aiohttp", "brotlicffi", "multidict", "protego", "rich", "yarl")
