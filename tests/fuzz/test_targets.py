"""The fuzz targets in CI: what Hypothesis draws, and what was worth keeping. By hand: `python -m tests.fuzz`."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.examples import MANY, at_most
from tests.fuzz.targets import TARGETS, corpus

SLOW = {"batches": 25, "mailbox": 20, "frontier": 40, "records": 80, "sources": 50, "yaml": 80}
"""Those that open frontiers, or read much, get fewer examples."""


@pytest.fixture(autouse=True)
def _nothing_of_other_tests_is_collected() -> Iterator[None]:
    """Finalize what other tests have left now, and not where a target has come to the recursion limit."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("name", TARGETS)
def test_whatever_hypothesis_draws(name: str) -> None:
    target = TARGETS[name]
    examples = at_most(SLOW.get(name, MANY))

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
    @given(target.strategy)
    def check(drawn: Any) -> None:
        target.check(drawn)

    check()


@pytest.mark.parametrize("name", TARGETS)
@settings(suppress_health_check=list(HealthCheck))
@given(raw=st.binary(max_size=200))
def test_whatever_a_fuzzer_gives_can_be_read(name: str, raw: bytes) -> None:
    TARGETS[name].read(raw)


@pytest.mark.parametrize("name", TARGETS)
def test_what_was_worth_keeping(name: str) -> None:
    kept = corpus(name)
    assert kept
    for path in kept:
        TARGETS[name].check(TARGETS[name].read(path.read_bytes()))
