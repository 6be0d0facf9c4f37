"""Totals of each label: what was fetched with it, and how many seeds have it."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import nsmallest

import msgspec

from budgetfrontier.rules.seeds import SeedFate
from budgetfrontier.storage import keys, seed_list
from budgetfrontier.storage.records import decode_tally, tally_of
from budgetfrontier.storage.view import View

MOST = 10_000
"""The most rows of a report on labels."""


class LabelTotals(msgspec.Struct):
    """A label: the seeds that have it, those that wait, and the URIs and bytes that were fetched with it."""

    label: str
    seeds: int = 0
    waiting: int = 0
    successes: int = 0
    errors: int = 0
    bytes: int = 0
    novel: int = 0
    novel_bytes: int = 0


LABEL_FIELDS = LabelTotals.__struct_fields__


def label_totals(view: View) -> list[LabelTotals]:
    """Return the labels, those first with which most was fetched. O(seeds + tallies), some us each."""
    found: dict[str, LabelTotals] = {}
    for key, value in view.items(keys.TALLIES):
        kind, label = tally_of(key)
        if kind == "label":
            stats = decode_tally(value)
            found[label] = LabelTotals(
                label,
                successes=stats.successes,
                errors=stats.errors,
                bytes=stats.bytes,
                novel=stats.novel,
                novel_bytes=stats.novel_bytes,
            )
    for _, row in seed_list.rows(view):
        if row.label:
            totals = found.get(row.label) or found.setdefault(row.label, LabelTotals(row.label))
            totals.seeds += 1
            totals.waiting += row.fate is SeedFate.WAITING
    return _sorted(found.values())


def summed(parts: Iterable[Iterable[LabelTotals]]) -> list[LabelTotals]:
    """Return the labels of all partitions of a crawl, each with the sums of its figures."""
    found: dict[str, LabelTotals] = {}
    for one in (one for part in parts for one in part):
        there = found.setdefault(one.label, LabelTotals(one.label))
        for name in LABEL_FIELDS[1:]:
            setattr(there, name, getattr(there, name) + getattr(one, name))
    return _sorted(found.values())


def _sorted(found: Iterable[LabelTotals]) -> list[LabelTotals]:
    return nsmallest(MOST, found, key=lambda one: (-one.successes - one.errors, one.label))
