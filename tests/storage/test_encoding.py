"""How records are encoded: later versions add fields at the end, and what cannot be decoded is damage."""

from __future__ import annotations

import msgspec
import pytest

from budgetfrontier.storage.damage import Damage
from budgetfrontier.storage.encoding import decoder, encode


class Row(msgspec.Struct, array_like=True):
    first: int
    second: str = "default"


def test_missing_last_fields_get_their_defaults() -> None:
    assert decoder(Row)(encode([7])) == Row(7)
    assert decoder(Row)(encode(Row(7, "given"))) == Row(7, "given")


@pytest.mark.parametrize("value", [b"", b"\xc1", encode([]), encode(["7"]), b"\x92\x07\xa1\xff", b"\x91" * 100_000])
def test_what_cannot_be_decoded_is_damage(value: bytes) -> None:
    with pytest.raises(Damage):
        decoder(Row)(value)
