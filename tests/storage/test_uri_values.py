"""What is written of a URI and read back: the same, whatever its queue's key says of its host."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgetfrontier.core.model import CrawlUri, Directive
from budgetfrontier.storage import keys
from budgetfrontier.storage.damage import Damage
from budgetfrontier.storage.uri_values import (
    decode_uri,
    encode_found,
    encode_uri,
    encode_url,
    expand,
    plain_start,
    restore_pending,
    restore_uri,
    short_url,
    shorten,
    tries,
    with_tries,
)

queue_keys = st.sampled_from(["a.test", "a.test:81", "test", "a.test/x", "com,example,", "all", "\1"])
hrefs = st.builds(
    "{}://{}/{}".format,
    st.sampled_from(["http", "https"]),
    st.sampled_from(["a.test", "a.test:81", "u@a.test", "a.testing", "b.a.test"]),
    st.text("ax/?=%", max_size=6),
)
any_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@given(hrefs | any_text, queue_keys)
def test_a_short_url_is_expanded_to_itself(url: str, queue: str) -> None:
    assert expand(shorten(url, queue), queue) == url


def test_scheme_and_host_are_left_to_the_queue() -> None:
    assert shorten("https://a.test/x", "a.test") == "\2/x"
    assert shorten("http://a.test/", "a.test") == "\1/"
    assert shorten("https://a.testing/x", "a.test") == "https://a.testing/x"
    assert encode_url("https://a.test/x", "a.test") == b"\xff/x"
    assert plain_start("https://a.test", "a.test") == (b"\xff", "\2")
    assert plain_start("http://a.test", "a.test") == (b"\xfe", "\1")
    assert plain_start("https://www.a.test", "a.test") == (None, "https://www.a.test")


@given(hrefs, queue_keys, st.none() | hrefs | any_text, st.sampled_from(["", "L", "LR"]), st.none() | st.binary())
def test_a_record_gives_back_what_was_written(
    url: str, queue: str, via: str | None, hops: str, payload: bytes | None
) -> None:
    uri = CrawlUri(url, via=via, hops=hops, payload=payload)
    value = encode_uri(uri, url, queue)
    assert decode_uri(value, queue) == uri
    assert expand(short_url(value), queue) == url
    assert tries(value) == (0, 0)
    for attempts, deliveries in (1, 0), (0, 20), (0xFDFF, 0xFFFF):
        again = with_tries(value, attempts, deliveries)
        assert tries(again) == (attempts, deliveries)
        assert decode_uri(again, queue) == uri
    assert decode_uri(with_tries(with_tries(value, 3, 4), 0, 0), queue) == uri


@given(hrefs, hrefs, queue_keys)
def test_what_was_found_on_a_page_is_a_uri_with_a_via(url: str, via: str, queue: str) -> None:
    found = CrawlUri(url, via=via, hops="LL")
    assert encode_found(shorten(url, queue), shorten(via, queue), "LL") == encode_uri(found, url, queue)


def test_more_attempts_than_two_bytes_hold_are_not_taken_for_a_plain_url() -> None:
    value = with_tries(encode_url("https://a.test/x", "a.test"), 1 << 20, 1 << 20)
    assert tries(value) == (0xFDFF, 0xFFFF)
    assert decode_uri(value, "a.test").url == "https://a.test/x"


def test_records_of_the_first_schema_are_read_as_they_are() -> None:
    old = keys.delivery.pack(2, 3) + msgspec.msgpack.encode(("https://a.test/x", "https://a.test/", "L"))
    assert decode_uri(old, "a.test") == CrawlUri("https://a.test/x", via="https://a.test/", hops="L")
    assert tries(old) == (2, 3)


@pytest.mark.parametrize("value", [b"", b"\0\0\0", b"\0\0\0\0\xc1", b"\0\0\0\0\x91\x01"])
def test_a_damaged_record_is_a_decode_error(value: bytes) -> None:
    with pytest.raises(Damage):
        decode_uri(value, "a.test")


@pytest.mark.parametrize("cost", [0, 1, 1023, 1024, (1 << 32) - 1])
@pytest.mark.parametrize("inverted", [0, 1 << 31, (1 << 32) - 1])
@pytest.mark.parametrize("directive", Directive)
@pytest.mark.parametrize("payload", [None, b"x"])
def test_what_is_leased_is_what_was_stored(
    payload: bytes | None, directive: Directive, inverted: int, cost: int
) -> None:
    value = encode_uri(CrawlUri("https://a.test/x", payload=payload), "https://a.test/x", "a.test")
    rank = keys.rank.pack(directive, inverted, cost, 7)
    leased = restore_pending(keys.u32.pack(1) + rank, value, "a.test")
    assert leased == restore_uri(rank, value, "a.test")
    assert (leased.url, leased.payload, leased.directive, leased.cost) == ("https://a.test/x", payload, directive, cost)


@pytest.mark.parametrize("value", [b"\xff/\xff", b"\xfe/\xc3"])
def test_a_url_with_bytes_that_none_has_is_leased_as_it_is_reported(value: bytes) -> None:
    rank = keys.rank.pack(3, 1 << 31, 1, 7)
    assert restore_pending(keys.u32.pack(1) + rank, value, "a.test") == restore_uri(rank, value, "a.test")
