"""The number of examples of properties that cost more than a few milliseconds each."""

from __future__ import annotations

from hypothesis import settings

MANY = 2000
"""Those of the profile `many`, which `make properties` draws."""


def at_most(number: int) -> int:
    """Return the number of examples of the profile, or `number` if that is smaller; all of them for `many`."""
    drawn = settings().max_examples
    return drawn if drawn >= MANY else min(drawn, number)


def few(number: int) -> settings:
    """Draw at most so many examples of a property; `make properties` draws all."""
    return settings(max_examples=at_most(number))
