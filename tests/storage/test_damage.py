"""The error of stored bytes, and messages of many problems."""

from __future__ import annotations

from budgetfrontier.storage.damage import MAX_REPORTED, Damage, report


def test_of_many_problems_the_first_are_told_and_how_many_more_there_are() -> None:
    assert report(["a", "b"]) == "a\nb"
    assert report(["a"] * MAX_REPORTED) == "\n".join(["a"] * MAX_REPORTED)
    assert report(["a"] * (MAX_REPORTED + 3)).splitlines()[-1] == "...and 3 more"


def test_damage_is_what_decoders_raise() -> None:
    assert issubclass(Damage, ValueError)
