"""Scrapy's SCHEDULER on a budgeted frontier (the extra "scrapy", Scrapy 2.13 and later).

`SCHEDULER = "budgetfrontier.scrapy.Scheduler"` is all that a project needs.
"""

from __future__ import annotations

from budgetfrontier.errors import MissingExtra

try:
    import scrapy as _scrapy  # noqa: F401
except ModuleNotFoundError as error:
    raise MissingExtra("scrapy") from error

from budgetfrontier.scrapy.scheduler import Scheduler

__all__ = ["Scheduler"]
