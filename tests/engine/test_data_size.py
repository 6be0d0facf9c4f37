"""How large plain data would be: about what an encoder makes of it, and bounded whatever refers to itself."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from budgetfrontier.engine.data_size import TOO_DEEP, TOO_LARGE, excess

VALUES: dict[str, Any] = {
    "text": "x" * 1000,
    "bytes": bytes(1000),
    "numbers": list(range(1000)),
    "a set": set(range(1000)),
    "keys": {f"key{number}": None for number in range(200)},
    "values": {"a": "x" * 500, "b": ["y" * 250, "z" * 250]},
}


@pytest.mark.parametrize("name", VALUES)
def test_it_is_about_what_an_encoder_makes(name: str) -> None:
    size = len(msgspec.msgpack.encode(VALUES[name]))
    assert excess(VALUES[name], size=size + 10, depth=5) == ""
    assert excess(VALUES[name], size=size // 3, depth=5) == TOO_LARGE


@pytest.mark.parametrize("wrap", [lambda inner: [inner], lambda inner: {"a": inner}, lambda inner: {1: (inner,)}])
def test_what_is_nested_deeper_than_allowed_is_too_deep(wrap: Any) -> None:
    value: Any = "x"
    for _ in range(4):
        value = wrap(value)
    assert excess(value, size=1000, depth=8) == ""
    assert excess(value, size=1000, depth=3) == TOO_DEEP


def test_what_contains_itself_is_refused() -> None:
    endless: list[Any] = []
    endless += [endless, endless]
    assert excess(endless, size=1 << 20, depth=50) != ""


def test_what_is_referred_to_again_and_again_counts_each_time() -> None:
    doubled: list[Any] = ["x"]
    for _ in range(40):  # 2^40 elements, to an encoder
        doubled = [doubled, doubled]
    assert excess(doubled, size=10_000, depth=50) == TOO_LARGE
