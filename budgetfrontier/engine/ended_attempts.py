"""The attempts that have ended since the last commit, for the rows of the tables `history` and `answers`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from budgetfrontier.core.model import QueueAnswers
from budgetfrontier.rules import queue_answers
from budgetfrontier.rules.queue_answers import UNKNOWN
from budgetfrontier.rules.queue_history import NEW, count
from budgetfrontier.storage import keys
from budgetfrontier.storage.encoding import encode
from budgetfrontier.storage.records import decode_answers

Attempt = tuple[int, int, float | None, int, int, int, int, int, str, int | None]
"""An attempt that has ended with details, or a download that has landed: the id of its queue, its kind, and seconds;
links, those of them that were admitted, and to its own queue; size; class of its answer, kind of error, and digest. A
class of its own would cost each a thousand instructions."""
Rows = list[tuple[bytes, bytes]]
"""Keys and values, in the order of keys."""


class EndedAttempts:
    """The attempts of queues that have ended since they were counted last."""

    def __init__(self) -> None:
        self._ended: list[Attempt] = []

    def __len__(self) -> int:
        return len(self._ended)

    def append(self, attempt: Attempt) -> None:
        """Note an attempt."""
        self._ended.append(attempt)

    def counted(
        self,
        history_of: Callable[[bytes], bytes | None],
        answers_of: Callable[[bytes], bytes | None],
        usual: Callable[[bytes, bytes], bytes],
    ) -> tuple[Rows, Rows]:
        """Count all, and forget them; return the rows of `history` and `answers` to be written.

        The functions return the rows that are there, by key; `usual` returns one of answers as it would be written, and
        raises Damage for one that is invalid. Each row is read once. O(attempts).
        """
        histories: dict[bytes, list[Any]] = {}
        answers: dict[bytes, QueueAnswers] = {}
        for queue, kind, seconds, links, new, own, size, answer, error, digest in self._ended:
            key = keys.u32.pack(queue)
            history = histories.get(key)
            if history is None:
                value = history_of(key)
                history = histories[key] = list(NEW if value is None else keys.history.unpack(value))
            count(history, kind, seconds, links, new, size)
            if answer == UNKNOWN and not own and digest is None:
                continue
            row = answers.get(key)
            if row is None:
                value = answers_of(key)
                row = answers[key] = QueueAnswers() if value is None else decode_answers(usual(key, value))
            if answer != UNKNOWN:
                row.classes[answer] += 1
            if error:
                queue_answers.add(row, error)
            if digest is not None:
                queue_answers.mark(row, digest)
            row.added += own
        self._ended.clear()
        return (
            [(key, keys.history.pack(*histories[key])) for key in sorted(histories)],
            [(key, encode(answers[key])) for key in sorted(answers)],
        )
