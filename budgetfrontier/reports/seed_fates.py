"""Heritrix's seeds report: what became of each seed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from budgetfrontier.model import DeadLetter
from budgetfrontier.reports.log_tables import FORBIDDEN, meaning
from budgetfrontier.store.seed_places import Place

if TYPE_CHECKING:
    from budgetfrontier.formats.crawl_log import Entry

COLUMNS = ("code", "status", "seed", "redirect", "queue", "detail")
DROP = ("detail", "queue", "redirect")

MOST_IMPORTED = 100_000
"""Seeds beyond those of the settings that are listed: those imported, as the log names them."""

_OUT_OF_SCOPE = -5000
_MOST_REDIRECTS = 20


class Fate(StrEnum):
    """The fate of a seed. CRAWLED and REDIRECTED are Heritrix's CRAWLED, all others its NOTCRAWLED."""

    CRAWLED = "CRAWLED"
    REDIRECTED = "REDIRECTED"
    LEASED = "LEASED"
    PENDING = "PENDING"
    FUTURE = "FUTURE"
    DEAD = "DEAD"
    FAILED = "FAILED"
    DISREGARDED = "DISREGARDED"
    NOT_REACHED = "NOT_REACHED"
    INVALID = "INVALID"
    UNKNOWN = "UNKNOWN"


class SeedLog:
    """The part of a crawl's log that is about seeds: the last status of each, and where it redirected to.

    Memory: the seeds, at most 100,000 besides those given at first, and the targets of their redirects.
    """

    def __init__(self, seeds: Iterable[str]) -> None:
        self.codes: dict[str, int | None] = dict.fromkeys(seeds)
        self.targets: dict[str, str] = {}
        self._target_codes: dict[str, int] = {}
        self._chain = dict.fromkeys(self.codes, 0)  # seeds and targets, with the number of redirects so far
        self.left_out = 0

    def read(self, entries: Iterable[Entry]) -> None:
        """Note what the log has, in one pass; a target of a redirect comes after the seed."""
        most = len(self.codes) + MOST_IMPORTED
        for entry in entries:
            hops = entry.hops
            if hops == b"-" and entry.via == b"-":
                url = entry.url.decode("utf-8", "replace")
                if url not in self.codes:
                    if len(self.codes) >= most:
                        self.left_out += 1
                        continue
                    self._chain[url] = 0
                self.codes[url] = entry.status
            elif hops.endswith(b"R") and hops.strip(b"R") == b"":
                via = entry.via.decode("utf-8", "replace")
                steps = self._chain.get(via)
                if steps is not None and steps < _MOST_REDIRECTS:
                    url = entry.url.decode("utf-8", "replace")
                    self.targets[via] = url
                    self._target_codes[url] = entry.status
                    self._chain.setdefault(url, steps + 1)

    def end_of(self, seed: str) -> tuple[str, int | None]:
        """Return the last target of a seed's redirects with its status, "" if there is none."""
        url, seen = seed, {seed}
        while (target := self.targets.get(url)) is not None and target not in seen:
            seen.add(target)
            url = target
        return (url, self._target_codes.get(url)) if url != seed else ("", None)


def seed_rows(
    log: SeedLog, places: Mapping[str, Place], invalid: Mapping[str, str], *, logged: bool
) -> Iterator[dict[str, Any]]:
    """Yield a row for each seed; `invalid` has those that are no URLs, with the reason; `logged`: there is a log."""
    for seed, code in log.codes.items():
        place = places.get(seed)
        fate, detail = _fate(code, place, logged=logged)
        target, target_code = log.end_of(seed)
        if fate is Fate.CRAWLED and code is not None and 300 <= code < 400 and code != 304:
            fate = Fate.REDIRECTED
            detail = (
                f"{target_code} {meaning(target_code)}".strip() if target_code is not None else "target not crawled"
            )
        yield {
            "code": code,
            "status": str(fate),
            "seed": seed,
            "redirect": target,
            "queue": place.queue if place else "",
            "detail": detail,
        }
    for seed, reason in invalid.items():
        yield {
            "code": None,
            "status": str(Fate.INVALID),
            "seed": seed,
            "redirect": "",
            "queue": "",
            "detail": reason,
        }


def _fate(code: int | None, place: Place | None, *, logged: bool) -> tuple[Fate, str]:
    """Return the fate of a seed with its last status in the log, if any, and what explains it."""
    if code is not None and code > 0 and code not in (429, 503):
        return Fate.CRAWLED, meaning(code)
    said = "" if code is None else meaning(code)
    final = code is not None and code in (FORBIDDEN, _OUT_OF_SCOPE)
    record = place.record if place else None
    if isinstance(record, DeadLetter):
        return Fate.DEAD, record.reason
    if record is not None:
        if record.leased:
            return Fate.LEASED, said
        if record.when is not None:
            return Fate.FUTURE, said
        return Fate.PENDING, said or f"{record.place:,} before it in its queue"
    if place is not None and place.waits:
        return Fate.PENDING, said or "scheduled more than once, and not known where it waits"
    if code is not None and place is not None and place.may_wait and not final:
        return Fate.UNKNOWN, f"{said or code}; given up, or it waits for another attempt behind links"
    if code is not None:
        if code > 0:
            return Fate.CRAWLED, said
        return (Fate.DISREGARDED if final else Fate.FAILED), said
    if place is None or not place.seen:
        return Fate.NOT_REACHED, "never scheduled"
    return Fate.UNKNOWN, "seen, and not in the log" if logged else "seen and not pending"
