"""Arguments of the API: what is accepted, and what each refusal says."""

from __future__ import annotations

import pytest

from budgetfrontier.engine import arguments


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf")])
def test_seconds_are_finite_and_at_least_0(value: float) -> None:
    with pytest.raises(ValueError, match="ttl is a number of seconds"):
        arguments.seconds(value, "ttl")
    assert arguments.seconds(0, "ttl") == 0.0


def test_a_crawl_delay_may_be_any_number() -> None:
    assert arguments.waits(None, -5) == (None, -5.0, None)
    assert arguments.waits(1, float("inf"), 2) == (1.0, float("inf"), 2.0)
    with pytest.raises(ValueError, match="crawl_delay"):
        arguments.waits(None, float("nan"))


def test_dead_letters_become_ids() -> None:
    assert arguments.letter_ids(None) is None
    assert (arguments.letter_ids(7), arguments.letter_ids([7, 8])) == ([7], [7, 8])
    with pytest.raises(TypeError, match="dead letters or their ids"):
        arguments.letter_ids("78")  # type: ignore[arg-type]


def test_a_queue_key_is_text() -> None:
    assert arguments.queue_key("a.test") == "a.test"
    with pytest.raises(TypeError, match="not int"):
        arguments.queue_key(5)
