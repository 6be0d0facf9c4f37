"""Records of queues and dead letters in their public forms, and what a repair reads of damaged ones."""

from __future__ import annotations

import msgspec
import pytest

from budgetfrontier.core.model import QueueRecord, QueueState
from budgetfrontier.rules.uri_order import NORMAL, PRIORITY_ZERO
from budgetfrontier.storage import keys
from budgetfrontier.storage.damage import Damage
from budgetfrontier.storage.encoding import encode
from budgetfrontier.storage.records import (
    DeadRow,
    QueueAmounts,
    dead_letter,
    decode_amounts,
    decode_queue,
    salvage_queue,
    whole_queue,
)
from budgetfrontier.storage.uri_values import encode_url, shorten, with_tries

QUEUE = QueueRecord("a.test", 7, queued=3, last_leased=shorten("https://a.test/x", "a.test"))


def test_the_public_form_of_a_queue_has_full_urls() -> None:
    assert whole_queue(encode(QUEUE)).last_leased == "https://a.test/x"


def test_the_public_form_of_a_dead_letter_has_what_its_key_says() -> None:
    rank = keys.rank.pack(NORMAL, PRIORITY_ZERO, 5, 1)
    value = with_tries(encode_url("https://a.test/x", "a.test"), 2, 3)
    letter = dead_letter(9, DeadRow(7, "a.test", rank, value, "timeout", 1000.0))
    assert (letter.id, letter.uri.url, letter.cost, letter.attempts, letter.deliveries) == (
        9, "https://a.test/x", 5, 2, 3,
    )  # fmt: skip


def test_unreadable_fields_of_a_queue_get_their_defaults() -> None:
    fields = list(msgspec.structs.astuple(QUEUE))
    fields[QUEUE.__struct_fields__.index("queued")] = "three"
    found, lost = salvage_queue(encode(fields))
    assert (found.queue, found.id, found.queued, lost) == ("a.test", 7, 0, ["queued"])
    assert salvage_queue(encode(QUEUE)) == (QUEUE, [])


@pytest.mark.parametrize("given", [["a.test"], ["a.test", "seven"], {"queue": "a.test"}])
def test_a_queue_without_key_or_id_cannot_be_salvaged(given: object) -> None:
    with pytest.raises(Damage):
        salvage_queue(encode(given))


def test_the_amounts_of_a_queue_are_those_of_its_record() -> None:
    """Also of a record whose last fields are missing, as they have their defaults."""
    names = tuple(QueueAmounts.__annotations__)
    queue = QueueRecord(
        "a.test", 7, QueueState.RETIRED, queued=4, expenditure=9, charges=3, errors=2, future=5, bytes=99
    )
    for value in (encode(queue), encode(["b.test", 8]), encode(["b.test", 8, "READY", 3, 6])):
        record, amounts = decode_queue(value), decode_amounts(value)
        assert [getattr(amounts, name) for name in names] == [getattr(record, name) for name in names]
    for damaged in (b"", encode([1, 2]), encode(["a.test", "b"]), encode(["a.test", 1, "nothing"])):
        with pytest.raises(Damage):
            decode_amounts(damaged)
