"""Heritrix's hashes, against the results of its own classes: heritrix-commons 3.4.0-20220727 on OpenJDK 17."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgetfrontier.core.heritrix_hashes import address_hash, bucket_of, fp64, text_hash


@pytest.mark.parametrize(
    ("text", "fingerprint", "code", "buckets"),
    [
        ("", -2935493925047926053, 0, [1, 2, 3, 40]),
        ("a", 4496813661046392933, 97, [1, 1, 7, 7]),
        ("news", 388699810477428533, 3377875, [0, 0, 0, 16]),
        ("0.0", -614830938538056644, 47602, [0, 0, 0, 0]),
        ("http://www.example.org/a/b?c=1", -3827056004250653064, 272882420, [1, 1, 6, 12]),
        ("été", -3404635574986600194, 227742, [1, 1, 5, 22]),
        ("docs", 3501071988561963798, 3088955, [1, 2, 5, 14]),
        ("images", 2157776702973792974, -1185250696, [1, 2, 3, 42]),
        ("x😀", -7566331675482513578, 1888219, [1, 1, 1, 39]),
    ],
)
def test_hashes_are_those_of_heritrix(text: str, fingerprint: int, code: int, buckets: list[int]) -> None:
    assert fp64(text) == fingerprint
    assert text_hash(text) == code
    assert [bucket_of(text, number) for number in (2, 3, 8, 50)] == buckets


def test_texts_are_spread_as_by_heritrix() -> None:
    counts = [0] * 5
    for number in range(100_000):
        counts[bucket_of(f"seg{number}", 5)] += 1
    assert counts == [15283, 23698, 22428, 19075, 19516]


@given(st.text(), st.sampled_from((1, 2, 3, 7, 8, 31, 63)))
def test_one_bucket_more_moves_texts_to_it_alone(text: str, buckets: int) -> None:
    assert bucket_of(text, buckets + 1) in (bucket_of(text, buckets), buckets)


@pytest.mark.parametrize(
    ("address", "code"),
    [
        ("127.0.0.1", 2130706433),
        ("192.0.2.7", -1073741305),
        ("255.255.255.255", -1),
        ("::1", 1),
        ("2001:db8::1", 536939705),
        ("2001:db8:85a3:8d3:1319:8a2e:370:7348", -1154674175),
        ("fe80::ffff:8000:80ff:ff80", 2088599168),
    ],
)
def test_addresses_are_hashed_as_by_java(address: str, code: int) -> None:
    assert address_hash(address) == code


def test_the_hash_of_no_address_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"example\.org"):
        address_hash("example.org")
