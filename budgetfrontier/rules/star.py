"""STAR: the budget of a registered domain by its in-degree, the number of other registered domains that link to it.

Up to `EXACT` linking domains are known one by one, by the XXH3 of their names; more are estimated by HyperLogLog.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from budgetfrontier.errors import MissingExtra

if TYPE_CHECKING:
    from hyperloglog import HyperLogLog

    from budgetfrontier.settings.schema import StarSettings

HASH = 8
"""The bytes of the hash of a domain."""
EXACT = 64
"""The most linking domains that are known one by one."""
REGISTERS = 1024
"""The registers of a sketch, one byte each."""
HIGHEST_REGISTER = 55
"""The highest value of a register: of 64 bits, ten choose the register."""
_ERROR = 0.033  # which gives that many registers; the standard error is 1.04 / 32 = 3.25 %


class Links(Protocol):
    """A row of the table `links`."""

    degree: int
    domains: bytes
    ranked: int
    changed_after: int


def add(row: Links, linking: Iterable[bytes]) -> bool:
    """Add the hashes of linking domains to those of a domain; return whether that has changed the row.

    An in-degree that is estimated never falls. Raises MissingExtra.
    """
    if len(row.domains) != REGISTERS:
        known = {row.domains[at : at + HASH] for at in range(0, len(row.domains), HASH)}
        before = len(known)
        known.update(linking)
        if len(known) <= EXACT:
            row.domains, row.degree = b"".join(sorted(known)), len(known)
            return len(known) > before
        sketch, linking = _sketch(None), known
    else:
        sketch = _sketch(row.domains)
    for domain in linking:
        sketch.add(domain)
    domains = sketch.M.astype("int8").tobytes()
    if domains == row.domains:
        return False
    row.domains, row.degree = domains, max(row.degree, EXACT + 1, round(sketch.card()))
    return True


def _sketch(registers: bytes | None) -> HyperLogLog:
    """Return an empty sketch, or that with these registers. Raises MissingExtra."""
    try:
        from hyperloglog import HyperLogLog
        from numpy import frombuffer
    except ImportError as error:
        raise MissingExtra("star") from error
    sketch = HyperLogLog(_ERROR)
    if registers is not None:
        sketch.M[:] = frombuffer(registers, "int8")
    return sketch


def objection(row: Links) -> str | None:
    """Return why a row of the table `links` cannot be one; None if it can."""
    if len(row.domains) == REGISTERS:
        wrong = row.degree <= EXACT or max(row.domains) > HIGHEST_REGISTER
    else:
        parts = [row.domains[at : at + HASH] for at in range(0, len(row.domains), HASH)]
        wrong = parts != sorted(set(parts)) or not all(len(part) == HASH for part in parts)
        wrong = wrong or not 0 < len(parts) <= EXACT or row.degree != len(parts)
    if wrong:
        return f"{len(row.domains)} bytes of linking domains, and an in-degree of {row.degree}"
    return f"ranked by {row.ranked}, and the in-degree is {row.degree}" if row.ranked > row.degree else None


def ranked(row: Links, ranking: int) -> int:
    """Return the in-degree of a domain at the last ranking, whose number is `ranking`."""
    return row.ranked if row.changed_after == ranking else row.degree


def cut_offs(degrees: Iterable[tuple[int, int]], top: int) -> tuple[int, int]:
    """Return the highest in-degree that is not among the `top` highest, and the highest of all; 0 without any.

    `degrees` are in-degrees with the number of domains that have each, the highest first.
    """
    highest = 0
    for degree, domains in degrees:
        highest = highest or degree
        top -= domains
        if top < 0:
            return degree, highest
    return 0, highest


def budget(degree: int, lowest: int, highest: int, star: StarSettings) -> int:
    """Return the total budget of a domain: interpolated linearly between the cut-offs, rounded down."""
    degree = min(degree, highest)
    if degree <= lowest:
        return star.default_budget
    return star.default_budget + (star.max_budget - star.default_budget) * (degree - lowest) // (highest - lowest)
