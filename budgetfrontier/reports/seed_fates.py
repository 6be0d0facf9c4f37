"""Heritrix's seeds report: what became of each seed of the frontier's list, and of those that are not in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any

from budgetfrontier.reports.log_tables import DISREGARDED, FORBIDDEN, OUT_OF_SCOPE, meaning
from budgetfrontier.rules.seeds import MOST_REDIRECTS, SeedFate, SeedOrigin
from budgetfrontier.rules.uri_outcomes import is_failure
from budgetfrontier.store.seed_list import ListedSeed, SeedRow
from budgetfrontier.vocabulary import QueueState

COLUMNS = ("code", "status", "seed", "redirect", "queue", "label", "origin", "detail")
DROP = ("detail", "origin", "label", "queue", "redirect")

CodeOf = Callable[[str], int | None]
"""Returns the last status of a URL in the crawl's log, None if it is not there."""

_STATUS = "status "


class Fate(StrEnum):
    """The fate of a seed. CRAWLED and REDIRECTED are Heritrix's CRAWLED, all others its NOTCRAWLED."""

    CRAWLED = "CRAWLED"
    REDIRECTED = "REDIRECTED"
    LEASED = "LEASED"
    PENDING = "PENDING"
    STRANDED = "STRANDED"
    DEAD = "DEAD"
    FAILED = "FAILED"
    DISREGARDED = "DISREGARDED"
    DELETED = "DELETED"
    KNOWN = "KNOWN"
    NOT_REACHED = "NOT_REACHED"
    INVALID = "INVALID"


_NAMES = {
    SeedFate.WAITING: Fate.PENDING,
    SeedFate.SUCCEEDED: Fate.CRAWLED,
    SeedFate.FAILED: Fate.FAILED,
    SeedFate.DISREGARDED: Fate.DISREGARDED,
    SeedFate.DEAD: Fate.DEAD,
    SeedFate.DELETED: Fate.DELETED,
    SeedFate.KNOWN: Fate.KNOWN,
}


def fate_of(found: ListedSeed) -> Fate:
    """Return the fate of a seed; one that waits on a RETIRED queue is STRANDED."""
    if found.row.fate is SeedFate.WAITING and found.leased:
        return Fate.LEASED
    if found.row.fate is SeedFate.WAITING and found.state is QueueState.RETIRED:
        return Fate.STRANDED
    if found.row.fate is SeedFate.SUCCEEDED and (found.row.redirect or _is_redirect(_code_in(found.row))):
        return Fate.REDIRECTED
    return _NAMES[found.row.fate]


def detail_of(found: ListedSeed, code_of: CodeOf = lambda url: None) -> str:
    """Return what explains the fate of a seed."""
    row, fate = found.row, fate_of(found)
    if fate is Fate.REDIRECTED:
        return _target(found, code_of)
    if fate in (Fate.PENDING, Fate.STRANDED, Fate.LEASED):
        where = f"its queue is {found.state}" if found.state else ""
        return "; ".join(filter(None, (where, row.reason)))
    if fate is Fate.KNOWN:
        return "was known before it was given as a seed"
    code = _code_in(row)
    return meaning(code) if code is not None else row.reason


def seed_rows(seeds: Iterable[ListedSeed], code_of: CodeOf = lambda url: None) -> Iterator[dict[str, Any]]:
    """Yield a row for each seed of the list. `code_of` is asked only for seeds whose status the list has not."""
    for found in seeds:
        row, fate = found.row, fate_of(found)
        code = _code_in(row)
        if code is None and (row.fate is not SeedFate.WAITING or row.reason) and row.fate is not SeedFate.DELETED:
            code = code_of(row.url)
        detail = detail_of(found, code_of)
        if fate is Fate.KNOWN and code is not None:
            fate, detail = _fate_by(code), meaning(code)
        yield {
            "code": code,
            "status": str(fate),
            "seed": row.url,
            "redirect": found.end.url if found.end else row.redirect,
            "queue": row.queue,
            "label": row.label,
            "origin": f"redirect of {row.via}" if row.origin is SeedOrigin.REDIRECTED else str(row.origin),
            "detail": detail,
        }


def _fate_by(code: int) -> Fate:
    """Return the fate of a URI by its last status in the crawl's log."""
    if code in DISREGARDED:
        return Fate.DISREGARDED
    return Fate.FAILED if is_failure(code) else Fate.CRAWLED


def unlisted_rows(not_reached: Iterable[str], invalid: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Yield a row for each seed of the settings that was never scheduled, or is no URL, with the reason."""
    nothing = dict.fromkeys(COLUMNS, "") | {"code": None, "origin": "settings"}
    for seed in not_reached:
        yield nothing | {"status": str(Fate.NOT_REACHED), "seed": seed, "detail": "never scheduled"}
    for seed, reason in invalid.items():
        yield nothing | {"status": str(Fate.INVALID), "seed": seed, "detail": reason}


def _target(found: ListedSeed, code_of: CodeOf) -> str:
    """Return what became of the last target of redirects."""
    end = found.end
    if found.is_cut and _is_redirect(_code_in(end or found.row)):
        return f"more than {MOST_REDIRECTS} redirects: crawl.log has what followed"
    if end is None:
        return "target not crawled"
    code = _code_in(end)
    if code is None and end.fate not in (SeedFate.WAITING, SeedFate.DELETED):
        code = code_of(end.url)
    if code is not None:
        return f"{code} {meaning(code)}".strip()
    if end.fate is SeedFate.KNOWN:
        return "target known before"
    return f"target {_NAMES[end.fate]}{f': {end.reason}' if end.reason else ''}"


def _code_in(row: SeedRow) -> int | None:
    """Return the status that the last attempt of a seed was finished with, if the reason is one."""
    text = row.reason
    if text.startswith(_STATUS) and text[len(_STATUS) :].isdecimal():
        return int(text[len(_STATUS) :])
    if row.fate is SeedFate.DISREGARDED:
        return FORBIDDEN if text == "robots" else OUT_OF_SCOPE if text.startswith("out of scope") else None
    return None


def _is_redirect(code: int | None) -> bool:
    return code is not None and 300 <= code < 400 and code != 304
