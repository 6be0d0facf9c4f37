"""The error of stored bytes, and messages of many problems."""

from __future__ import annotations

from budgetfrontier.storage.damage import MAX_REPORTED, Damage, in_a_line, report


def test_of_many_problems_the_first_are_told_and_how_many_more_there_are() -> None:
    assert report(["a", "b"]) == "a\nb"
    assert report(["a"] * MAX_REPORTED) == "\n".join(["a"] * MAX_REPORTED)
    assert report(["a"] * (MAX_REPORTED + 3)).splitlines()[-1] == "...and 3 more"


def test_a_line_of_a_log_has_the_first_problem_and_the_number_of_all_others() -> None:
    assert in_a_line(ValueError("a")) == "a" and in_a_line("") == ""
    for count in (2, MAX_REPORTED, MAX_REPORTED + 1, 1000):
        assert in_a_line(report(["a"] * count)) == f"a, and {count - 1:,} more"


def test_damage_is_what_decoders_raise() -> None:
    assert issubclass(Damage, ValueError)
