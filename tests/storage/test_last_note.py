"""The note of an end that could not be committed: whole, or none."""

from __future__ import annotations

import pytest

from budgetfrontier.core.model import RunEnd, RunRow
from budgetfrontier.rules.run_history import LONGEST_REASON
from budgetfrontier.storage.last_note import decode_note, encode_note

ROW = RunRow(100.0, 7, "a.test", "crawl", 130.0, RunEnd.DISK_FULL, "full", 12)


def test_a_note_is_read_as_it_was_written_and_fits_the_first_block_of_the_file() -> None:
    assert decode_note(encode_note(ROW)) == ROW
    longest = RunRow(1e9, 1 << 22, "h" * 255, "p" * 255, 1e9, RunEnd.ERROR, "\N{PILE OF POO}" * LONGEST_REASON, 1 << 60)
    assert len(encode_note(longest)) < 4000
    assert decode_note(encode_note(longest)) == longest


@pytest.mark.parametrize("count", range(0, len(encode_note(ROW)), 5))
def test_a_part_of_a_note_is_none(count: int) -> None:
    assert decode_note(encode_note(ROW)[:count]) is None


@pytest.mark.parametrize("line", [b"\n", b"\xff\xff\n", b"[1]\n", b"{}\n", encode_note(RunRow(1.0, 1, "", ""))])
def test_other_lines_are_none(line: bytes) -> None:
    assert decode_note(line) is None
