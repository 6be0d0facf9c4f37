"""What a project's settings make of the frontier: its defaults under Scrapy, its dupefilter, its JOBDIR."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from budgetfrontier.errors import SettingsError
from budgetfrontier.scrapy import limits
from budgetfrontier.scrapy.order import Order
from budgetfrontier.settings import Settings
from budgetfrontier.settings.loader import load
from budgetfrontier.settings.schema import CanonicalizationSettings, FrontierSettings, PolitenessSettings
from budgetfrontier.settings.validation import read_settings

_NOT_OURS = ("seeds", "scope", "fetch", "links", "output", "limits", "reports")

log = logging.getLogger(__name__)


def frontier_settings(scrapy: Any, spider: Any, order: Order) -> Settings:
    """The settings of the frontier: Scrapy's habits, and BUDGETFRONTIER_SETTINGS on top of them.

    BUDGETFRONTIER_SETTINGS is a dict shaped as the YAML, JSON of such a dict, or the path of a YAML file. Scrapy's
    downloader keeps its own delays, so that the engine's politeness is off, and its own limits, which those of the
    queues follow; all queues take turns; of what deduplication may look past only the order of query arguments is kept,
    for that is what Scrapy does. Raises SettingsError.
    """
    limit = limits.of_slots(scrapy, spider)
    base = Settings(
        crawl=spider.name,
        frontier=FrontierSettings(
            hold_queues=False,
            order=order.others,
            queue_assignment_policy="single" if order.across_hosts else FrontierSettings().queue_assignment_policy,
            politeness=PolitenessSettings(
                delay_factor=0.0,
                min_delay=0.0,
                max_delay=0.0,
                per_queue_concurrency=limit,
            ),
            canonicalization=CanonicalizationSettings(
                strip_userinfo=False, strip_www=False, strip_session_ids=False, strip_tracking=False
            ),
        ),
    )
    settings = _on_top(scrapy.get("BUDGETFRONTIER_SETTINGS"), base)
    plain = Settings()
    if idle := [section for section in _NOT_OURS if getattr(settings, section) != getattr(plain, section)]:
        log.warning("BUDGETFRONTIER_SETTINGS: %s mean nothing here, Scrapy has its own", ", ".join(idle))
    own = settings.frontier.politeness.per_queue_concurrency != limit
    return settings if own else limits.fitted(settings, scrapy, limit)


def _on_top(given: object, base: Settings) -> Settings:
    if given is None or given == "":
        return base
    if isinstance(given, str) and given.lstrip().startswith("{"):
        try:
            given = json.loads(given)
        except ValueError as e:
            raise SettingsError(f"BUDGETFRONTIER_SETTINGS: this is no JSON ({e})") from None
    if isinstance(given, Mapping):
        return read_settings(dict(given), base)
    if isinstance(given, str | os.PathLike):
        return load(Path(given), base)[0]
    raise SettingsError(f"BUDGETFRONTIER_SETTINGS is a dict or the path of a YAML file, not {type(given).__name__}")


def own_dupefilter(scrapy: Any) -> bool:
    """Whether the frontier says what is a duplicate: unless the project names a dupefilter or a fingerprinter."""
    return not any(scrapy.getpriority(name) for name in ("DUPEFILTER_CLASS", "REQUEST_FINGERPRINTER_CLASS"))


class Job(msgspec.Struct):
    """What a JOBDIR says of itself in JOBDIR/budgetfrontier.json: whose frontier it holds, and the key of its seals."""

    spider: str
    key: bytes


def claim(folder: Path, spider: str) -> Job:
    """Return the job in a folder, made if there is none. Raises SettingsError if it is another spider's."""
    path = folder / "budgetfrontier.json"
    try:
        job = msgspec.json.decode(path.read_bytes(), type=Job)
    except FileNotFoundError:
        job = Job(spider, os.urandom(32))
        _write(path, msgspec.json.encode(job))
    except msgspec.DecodeError as e:
        raise SettingsError(f"{path} is damaged ({e}); restore it, or begin with another JOBDIR") from None
    if job.spider != spider:
        raise SettingsError(
            f"{folder} holds the frontier of the spider {job.spider!r}, not of {spider!r}: give each spider a JOBDIR "
            "of its own"
        )
    return job


def _write(path: Path, data: bytes) -> None:
    new = path.with_suffix(".new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:  # only ours to read
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
