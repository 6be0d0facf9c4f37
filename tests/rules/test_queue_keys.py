"""The keys of queues: the one that wins, text that is one, and how it is stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import pytest

from budgetfrontier import CrawlUri
from budgetfrontier.rules import queue_keys


def not_asked(uri: CrawlUri) -> NoReturn:
    raise AssertionError(f"the policy was asked for {uri.url}")


@pytest.mark.parametrize("key", ["b.test", ""])
def test_a_forced_key_wins_and_the_policy_is_not_asked(key: str) -> None:
    uri = CrawlUri("https://a.test/", queue=key)
    assert queue_keys.queue_key_for(uri, not_asked) == key


def test_without_a_forced_key_the_policy_is_asked_for_the_uri() -> None:
    uri = CrawlUri("https://a.test/")
    assert queue_keys.queue_key_for(uri, lambda asked: f"queue of {asked.url}") == "queue of https://a.test/"


@pytest.mark.parametrize("key", ["", "a\0b", "\ud800", "x" * 256, "é" * 128])
def test_text_that_is_no_queue_key(key: str) -> None:
    assert queue_keys.queue_key_bytes(key) is None


@pytest.mark.parametrize("key", ["a.test", "x" * 255, "é" * 127, "a.test:8080"])
def test_a_queue_key_is_stored_and_read_back(key: str) -> None:
    stored = queue_keys.queue_key_bytes(key)
    assert stored is not None and queue_keys.queue_key_of(stored) == key


@pytest.mark.parametrize("stored", [b"", b"a\0b", b"\xff", b"x" * 256])
def test_bytes_that_are_no_queue_key(stored: bytes) -> None:
    assert queue_keys.queue_key_of(stored) is None


def test_a_forced_key_in_another_spelling_of_the_uris_own_host_is_that_hosts() -> None:
    for own in ("A.test", "a.test", "a.test.", "a.test:80", "A.test:443"):
        assert queue_keys.queue_key_for(CrawlUri("https://a.test/", queue=own), not_asked) == "a.test"
    for other in ("b.test", "B.test", "A.test:8080", "a.test!"):
        assert queue_keys.queue_key_for(CrawlUri("https://a.test/", queue=other), not_asked) == other


def test_a_queue_is_named_by_its_key_or_by_a_spelling_of_it_if_only_that_exists() -> None:
    def exists(*keys: str) -> Callable[[str], object]:
        return lambda key: 0 if key in keys else None

    assert queue_keys.key_named("A.test", exists("A.test", "a.test")) == "A.test"
    assert queue_keys.key_named("A.test", exists("a.test")) == "a.test"
    assert queue_keys.key_named("a.test:443", exists("a.test")) == "a.test"
    assert queue_keys.key_named("A.test", exists("b.test")) == "A.test"
    assert queue_keys.key_named("no host", exists("a.test")) == "no host"


def test_a_key_of_one_byte_is_one() -> None:
    assert queue_keys.queue_key_bytes("a") == b"a"
