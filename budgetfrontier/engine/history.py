"""The owner of the tables `history` and `answers`: counts and means of the attempts of each queue."""

from __future__ import annotations

from typing import Any

from xxhash import xxh3_64_intdigest

from budgetfrontier.core.model import CrawlUri, Directive, Finish, Lease, QueueAnswers
from budgetfrontier.core.vocabulary import ANSWERS
from budgetfrontier.rules import queue_answers
from budgetfrontier.rules.queue_answers import REDIRECTION, UNKNOWN, answer_class, kind_of
from budgetfrontier.rules.queue_history import DISREGARDED, KINDS, LANDED, NEW, SUCCESS, count
from budgetfrontier.storage import keys
from budgetfrontier.storage.damage import Damage
from budgetfrontier.storage.encoding import encode
from budgetfrontier.storage.environment import Environment
from budgetfrontier.storage.records import Counters, decode_answers

MOST_ENDED = 1 << 14
"""Attempts kept in memory at the most, before they are counted."""
_HIGHEST = int(Directive.HIGHEST)


EndedAttempt = tuple[int, int, float | None, int, int, int, int, int, str, int | None]
"""An attempt that has ended with details, or a download that has landed: the id of its queue, its kind, and seconds;
links, those of them that were admitted, and to its own queue; size; class of its answer, kind of error, and digest. A
class of its own would cost each a thousand instructions."""


class History:
    """Counts the attempts of queues. Those since the last commit are counted with it, each queue's rows read once."""

    def __init__(self, env: Environment, counters: Counters) -> None:
        self._env = env
        self._counters = counters
        self._ended: list[EndedAttempt] = []
        self._linked: dict[int, tuple[int, int, int]] = {}  # by the id of the lease

    def linked(self, lease_id: int, links: int, new: int, own: int) -> None:
        """Note the links of a page that were scheduled before its lease ends, for the end of the lease to count."""
        if len(self._linked) >= MOST_ENDED:
            self._linked.clear()  # of leases that ended without details, or never
        self._linked[lease_id] = links, new, own

    def ended(self, lease: Lease, ending: Finish, new: int = 0, own: int = 0) -> None:
        """Note an attempt that ended with details."""
        outcome, status, links, error, digest = ending.outcome, ending.status, 0, "", None
        kind = KINDS.get(outcome)
        if kind is None or (lease.key[keys.DIRECTIVE] == _HIGHEST and kind in (SUCCESS, DISREGARDED)):
            return  # robots.txt files are no pages; that they fail says that their host does
        if ending.discovered:
            links, new, own = _without_revisits(lease.uri, ending.discovered, new, own)
        elif self._linked:
            links, new, own = self._linked.pop(lease.id, (0, 0, 0))
        if kind == DISREGARDED:
            answer = UNKNOWN
        else:
            answer, error = answer_class(outcome, status), kind_of(outcome, status, ending.reason)
            if answer != UNKNOWN:
                total = ANSWERS[answer]
                setattr(self._counters, total, getattr(self._counters, total) + 1)
            if ending.digest and kind == SUCCESS and status < REDIRECTION and not lease.uri.force:
                digest = xxh3_64_intdigest(ending.digest)
        seconds = None if lease.landed else ending.fetch_seconds
        self._ended.append((lease.queue_id, kind, seconds, links, new, own, ending.size, answer, error, digest))
        if len(self._ended) >= MOST_ENDED:
            self.flush()

    def landed(self, lease: Lease, fetch_seconds: float) -> None:
        """Note the duration of a download whose lease has landed."""
        self._ended.append((lease.queue_id, LANDED, fetch_seconds, 0, 0, 0, 0, UNKNOWN, "", None))

    def flush(self) -> None:
        """Count the attempts, and write the rows."""
        if not self._ended:
            return
        histories: dict[int, list[Any]] = {}
        answers: dict[int, QueueAnswers] = {}
        for queue, kind, seconds, links, new, own, size, answer, error, digest in self._ended:
            history = histories.get(queue)
            if history is None:
                history = histories[queue] = self._history(queue)
            count(history, kind, seconds, links, new, size)
            if answer == UNKNOWN and not own and digest is None:
                continue
            row = answers.get(queue)
            if row is None:
                row = answers[queue] = self._answers(queue)
            if answer != UNKNOWN:
                row.classes[answer] += 1
            if error:
                queue_answers.add(row, error)
            if digest is not None:
                queue_answers.mark(row, digest)
            row.added += own
        self._ended.clear()
        self._put(keys.HISTORY, {queue: keys.history.pack(*row) for queue, row in histories.items()})
        self._put(keys.ANSWERS, {queue: encode(row) for queue, row in answers.items()})

    def _put(self, table: str, rows: dict[int, bytes]) -> None:
        sorted_ = [(keys.u32.pack(queue), rows[queue]) for queue in sorted(rows)]
        self._env.txn.cursor(self._env.db[table]).putmulti(sorted_)

    def _get(self, table: str, queue: int) -> bytes | None:
        return self._env.txn.get(keys.u32.pack(queue), db=self._env.db[table])

    def _history(self, queue: int) -> list[Any]:
        value = self._get(keys.HISTORY, queue)
        return list(NEW if value is None else keys.history.unpack(value))

    def _answers(self, queue: int) -> QueueAnswers:
        value = self._get(keys.ANSWERS, queue)
        row = QueueAnswers() if value is None else decode_answers(value)
        if why := queue_answers.objection(row):
            raise Damage(f"the answers of queue {queue}: {why}")
        return row


def _without_revisits(page: CrawlUri, found: Any, new: int, own: int) -> tuple[int, int, int]:
    """Return how many links were found, were new, and were added to the queue of the page, but for the page itself."""
    revisits = 0
    for uri in found:  # which may be refused, so that its fields may be anything
        if uri.__class__ is CrawlUri and uri.force is True and uri.url.__class__ is str and uri.url == page.url:
            revisits += 1
    new = max(new - revisits, 0)
    return len(found) - revisits, new, min(own, new)
