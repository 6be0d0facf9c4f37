"""Heritrix's seeds report: the fate of each seed, also of seeds missing from the frontier's list."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from budgetfrontier.core import uris
from budgetfrontier.core.vocabulary import QueueState
from budgetfrontier.errors import InvalidUrl
from budgetfrontier.reports.listings import chunks
from budgetfrontier.reports.log_tables import DISREGARDED, FORBIDDEN, OUT_OF_SCOPE, meaning
from budgetfrontier.rules.seeds import MOST_REDIRECTS, SeedFate, SeedOrigin
from budgetfrontier.rules.uri_outcomes import is_failure
from budgetfrontier.settings.url_lists import BadLine, entries
from budgetfrontier.storage.seed_list import ListedSeed, SeedRow

if TYPE_CHECKING:
    from budgetfrontier.settings.schema import Seed

COLUMNS = ("code", "status", "seed", "redirect", "queue", "label", "origin", "detail")
DROP = ("detail", "origin", "label", "queue", "redirect")

StatusesOf = Callable[[Collection[str]], Mapping[str, int]]
"""Returns the last status of URLs in the crawl's log, if they are there."""

_STATUS = "status "
_CHUNK = 10_000
"""Seeds for which the log is asked at a time: some 10 MB."""


class SeedStatus(StrEnum):
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
    SeedFate.WAITING: SeedStatus.PENDING,
    SeedFate.SUCCEEDED: SeedStatus.CRAWLED,
    SeedFate.FAILED: SeedStatus.FAILED,
    SeedFate.DISREGARDED: SeedStatus.DISREGARDED,
    SeedFate.DEAD: SeedStatus.DEAD,
    SeedFate.DELETED: SeedStatus.DELETED,
    SeedFate.KNOWN: SeedStatus.KNOWN,
}


def fate_of(found: ListedSeed) -> SeedStatus:
    """Return the fate of a seed; one waiting on a RETIRED or INELIGIBLE queue is STRANDED."""
    if found.row.fate is SeedFate.WAITING and found.leased:
        return SeedStatus.LEASED
    if found.row.fate is SeedFate.WAITING and found.state in (QueueState.RETIRED, QueueState.INELIGIBLE):
        return SeedStatus.STRANDED
    if found.row.fate is SeedFate.SUCCEEDED and (found.row.redirect or _is_redirect(_code_in(found.row))):
        return SeedStatus.REDIRECTED
    return _NAMES[found.row.fate]


def _detail_of(found: ListedSeed, statuses: Mapping[str, int]) -> str:
    row, fate = found.row, fate_of(found)
    if fate is SeedStatus.REDIRECTED:
        return _target(found, statuses)
    if fate in (SeedStatus.PENDING, SeedStatus.STRANDED, SeedStatus.LEASED):
        where = f"its queue is {found.state}" if found.state else ""
        return "; ".join(filter(None, (where, row.reason)))
    if fate is SeedStatus.KNOWN:
        return "was known before it was given as a seed"
    code = _code_in(row)
    return meaning(code) if code is not None else row.reason


def seed_rows(seeds: Iterable[ListedSeed], statuses_of: StatusesOf = lambda urls: {}) -> Iterator[dict[str, Any]]:
    """Yield a row for each seed of the list. `statuses_of` is called for seeds without a status in the list."""
    for chunk in chunks(seeds, _CHUNK):
        asked = {row.url for found in chunk for row in (found.row, found.end) if row is not None and _is_in_log(row)}
        statuses = statuses_of(asked) if asked else {}
        yield from (_row(found, statuses) for found in chunk)


def _row(found: ListedSeed, statuses: Mapping[str, int]) -> dict[str, Any]:
    row, fate, code = found.row, fate_of(found), _status_of(found.row, statuses)
    detail = _detail_of(found, statuses)
    if fate is SeedStatus.KNOWN and code is not None:
        fate, detail = _fate_by(code), meaning(code)
    return {
        "code": code,
        "status": str(fate),
        "seed": row.url,
        "redirect": found.end.url if found.end else row.redirect,
        "queue": row.queue,
        "label": row.label,
        "origin": f"redirect of {row.via}" if row.origin is SeedOrigin.REDIRECTED else str(row.origin),
        "detail": detail,
    }


def _status_of(row: SeedRow, statuses: Mapping[str, int]) -> int | None:
    return statuses.get(row.url) if _is_in_log(row) else _code_in(row)


def _is_in_log(row: SeedRow) -> bool:
    """Return whether a seed was attempted, as far as is known, and the list has no status of it."""
    attempted = row.fate is not SeedFate.DELETED and (row.fate is not SeedFate.WAITING or bool(row.reason))
    return attempted and _code_in(row) is None


def _fate_by(code: int) -> SeedStatus:
    if code in DISREGARDED:
        return SeedStatus.DISREGARDED
    return SeedStatus.FAILED if is_failure(code) else SeedStatus.CRAWLED


def unlisted_row(seed: str, fate: SeedStatus, detail: str) -> dict[str, Any]:
    """Return the row of a seed of the settings that is not in the list."""
    return dict.fromkeys(COLUMNS, "") | {
        "code": None,
        "status": str(fate),
        "seed": seed,
        "origin": "settings",
        "detail": detail,
    }


def unlisted_rows(
    seeds: Iterable[Seed], unlisted_of: Callable[[Sequence[str]], Collection[str]], unread: list[str]
) -> Iterator[dict[str, Any]]:
    """Yield a row for each seed of the settings that was never scheduled, or is no URL, with the reason.

    `unlisted_of` returns which of some URLs the list has not. Files that cannot be read are appended to `unread`.
    """
    for chunk in chunks(_entries(seeds, unread), _CHUNK):
        missing = unlisted_of([href for _, href, bad in chunk if not bad])
        for seed, href, bad in chunk:
            if bad:
                yield unlisted_row(seed, SeedStatus.INVALID, bad)
            elif href in missing:
                yield unlisted_row(href, SeedStatus.NOT_REACHED, "never scheduled")


def _entries(seeds: Iterable[Seed], unread: list[str]) -> Iterator[tuple[str, str, str]]:
    """Yield the text of each seed of the settings, its URL, and why it has none."""
    for seed in seeds:
        try:
            for number, entry in entries(seed):
                if isinstance(entry, BadLine):
                    yield entry.url or f"{seed.file}:{number}", "", str(entry)
                    continue
                try:
                    yield entry.text, uris.parse(entry.text), ""
                except InvalidUrl as e:
                    yield entry.text, "", str(e)
        except OSError as e:
            unread.append(f"seeds of a file that cannot be read are not listed: {seed.file}: {e.strerror}")


def _target(found: ListedSeed, statuses: Mapping[str, int]) -> str:
    end = found.end
    if found.is_cut and _is_redirect(_code_in(end or found.row)):
        return f"more than {MOST_REDIRECTS} redirects: crawl.log has what followed"
    if end is None:
        return "target not crawled"
    if (code := _status_of(end, statuses)) is not None:
        return f"{code} {meaning(code)}".strip()
    if end.fate is SeedFate.KNOWN:
        return "target known before"
    return f"target {_NAMES[end.fate]}{f': {end.reason}' if end.reason else ''}"


def _code_in(row: SeedRow) -> int | None:
    """Return the status that the last attempt of a seed was finished with, if the reason is one."""
    return _code(row.fate, row.reason)


@lru_cache(1024)
def _code(fate: SeedFate, reason: str) -> int | None:
    if reason.startswith(_STATUS) and reason[len(_STATUS) :].isdecimal():
        return int(reason[len(_STATUS) :])
    if fate is SeedFate.DISREGARDED:
        return FORBIDDEN if reason == "robots" else OUT_OF_SCOPE if reason.startswith("out of scope") else None
    return None


def _is_redirect(code: int | None) -> bool:
    return code is not None and 300 <= code < 400 and code != 304
