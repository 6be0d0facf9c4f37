"""What a fuzz target is: one check, and two ways to make what it is given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from hypothesis.strategies import SearchStrategy


class Target(NamedTuple):
    """Something that must stand whatever it is given.

    `check` raises for what must not happen. Hypothesis draws its argument from `strategy`; atheris and the files of the
    corpus are bytes, of which `read` makes one.
    """

    check: Callable[[Any], None]
    strategy: SearchStrategy[Any]
    read: Callable[[bytes], Any]


def text(raw: bytes) -> str:
    """The bytes of a fuzzer as text: UTF-8, lone surrogates included, and what is no UTF-8 as lone surrogates."""
    try:
        return raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return raw.decode("utf-8", "surrogateescape")
