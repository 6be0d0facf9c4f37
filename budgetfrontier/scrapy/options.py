"""Scrapy's settings applied to the frontier: defaults under Scrapy, the dupefilter, the JOBDIR."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from budgetfrontier.errors import SettingsError
from budgetfrontier.scrapy import downloader_limits
from budgetfrontier.scrapy.order import RequestOrder
from budgetfrontier.settings import Settings
from budgetfrontier.settings.loader import load
from budgetfrontier.settings.schema import CanonicalizationSettings, FrontierSettings, PolitenessSettings
from budgetfrontier.settings.validation import read_settings
from budgetfrontier.storage.whole_files import atomic_file

_FILE = "budgetfrontier.json"
_UNUSED_SECTIONS = ("seeds", "scope", "fetch", "links", "output", "limits", "reports")

log = logging.getLogger(__name__)


def frontier_settings(scrapy: Any, spider: Any, order: RequestOrder) -> Settings:
    """Return the settings of the frontier: defaults that match Scrapy's behaviour, then BUDGETFRONTIER_SETTINGS.

    BUDGETFRONTIER_SETTINGS is a dict of the same shape as the YAML, JSON of such a dict, or the path of a YAML file.
    The defaults: politeness is off, because Scrapy's downloader keeps the delays, but hosts that answer 429 or 503
    rest (`frontier.backoff`); the limits of queues follow the downloader's; all queues take turns; of the
    canonicalization for deduplication only the sorting of query arguments is on, as in Scrapy. Raises SettingsError.
    """
    limit = downloader_limits.per_slot(scrapy, spider)
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
    settings = _overlay(scrapy.get("BUDGETFRONTIER_SETTINGS"), base)
    defaults = Settings()
    if unused := [section for section in _UNUSED_SECTIONS if getattr(settings, section) != getattr(defaults, section)]:
        log.warning("BUDGETFRONTIER_SETTINGS: %s mean nothing here, Scrapy has its own", ", ".join(unused))
    limit_is_set = settings.frontier.politeness.per_queue_concurrency != limit
    return settings if limit_is_set else downloader_limits.adapt(settings, scrapy, limit)


def _overlay(value: object, base: Settings) -> Settings:
    if value is None or value == "":
        return base
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            value = json.loads(value)
        except ValueError as e:
            raise SettingsError(f"BUDGETFRONTIER_SETTINGS: this is not valid JSON ({e})") from None
    if isinstance(value, Mapping):
        return read_settings(dict(value), base)
    if isinstance(value, str | os.PathLike):
        return load(Path(value), base)[0]
    raise SettingsError(f"BUDGETFRONTIER_SETTINGS is a dict or the path of a YAML file, not {type(value).__name__}")


def own_dupefilter(scrapy: Any) -> bool:
    """Return whether the frontier finds duplicates: the project sets neither a dupefilter nor a fingerprinter."""
    return not any(scrapy.getpriority(name) for name in ("DUPEFILTER_CLASS", "REQUEST_FINGERPRINTER_CLASS"))


class JobFile(msgspec.Struct):
    """The content of JOBDIR/budgetfrontier.json: the spider of the frontier there, and the key that signs payloads."""

    spider: str
    key: bytes
    command: list[str] | None = None
    """The words of Scrapy's command that ran the spider last, but for JOBDIR; None if it had other options, too, or if
    a program of the user's ran it."""


_decode_job = msgspec.json.Decoder(JobFile).decode


def command_again(argv: Sequence[str]) -> list[str] | None:
    """Return the words of the command of Scrapy that a process was started with, None if they are not all of it.

    >>> command_again(["/usr/bin/scrapy", "crawl", "news", "-s", "JOBDIR=job"])
    ['crawl', 'news']
    """
    program, *words = argv or [""]
    if Path(program).name != "scrapy" and Path(program).parts[-2:] != ("scrapy", "__main__.py"):
        return None
    for at in reversed(range(len(words) - 1)):
        if words[at] in ("-s", "--set") and words[at + 1].startswith("JOBDIR="):
            del words[at : at + 2]
    if len(words) != 2 or words[0] not in ("crawl", "runspider"):
        return None
    return words if words[0] == "crawl" else ["runspider", os.path.abspath(words[1])]


def job_file(folder: Path, spider: str) -> JobFile | None:
    """Return the file of a JOBDIR, None if there is none. Raises SettingsError if it is damaged or another spider's."""
    path = folder / _FILE
    try:
        job = _decode_job(path.read_bytes())
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as e:
        raise SettingsError(f"{path} is damaged ({e}); restore it, or begin with another JOBDIR") from None
    if job.spider != spider:
        raise SettingsError(
            f"{folder} holds the frontier of the spider {job.spider!r}, not of {spider!r}: give each spider a JOBDIR "
            "of its own"
        )
    return job


def claim(folder: Path, spider: str) -> JobFile:
    """Return the file of a JOBDIR, made if there is none, with the command that has started this process.

    For the process that has the frontier there open. Raises SettingsError like `job_file`.
    """
    found = job_file(folder, spider)
    job = JobFile(spider, os.urandom(32) if found is None else found.key, command_again(sys.argv))
    if job != found:
        with atomic_file(folder / _FILE, opener=partial(os.open, mode=0o600)) as file:  # readable by this user only
            file.write(msgspec.json.encode(job))
            file.flush()
            os.fsync(file.fileno())
    return job
