"""The owner of the tables `history` and `answers`: counts and means of the attempts of each queue."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from xxhash import xxh3_64_intdigest

from budgetfrontier.core.model import CrawlUri, Directive, Finish, Lease
from budgetfrontier.core.vocabulary import ANSWERS
from budgetfrontier.engine.ended_attempts import EndedAttempts
from budgetfrontier.engine.native import kernel
from budgetfrontier.rules import queue_answers
from budgetfrontier.rules.queue_answers import REDIRECTION, UNKNOWN, answer_class, kind_of
from budgetfrontier.rules.queue_history import DISREGARDED, KINDS, LANDED, SUCCESS
from budgetfrontier.storage import keys
from budgetfrontier.storage.damage import Damage
from budgetfrontier.storage.encoding import encode
from budgetfrontier.storage.environment import Environment
from budgetfrontier.storage.records import Counters, decode_answers

MOST_ENDED = 1 << 14
"""Attempts kept in memory at the most, before they are counted."""
_HIGHEST = int(Directive.HIGHEST)


class History:
    """Counts the attempts of queues. Those since the last commit are counted with it, each queue's rows read once."""

    def __init__(self, env: Environment, counters: Counters) -> None:
        self._env = env
        self._counters = counters
        self.attempts: EndedAttempts = EndedAttempts() if kernel is None else kernel.EndedAttempts()
        self.links: dict[int, tuple[int, int, int]] = {}
        """The links of pages that were scheduled before the leases of these pages end, by the ids of those."""

    def linked(self, lease_id: int, links: int, new: int, own: int) -> None:
        """Note the links of a page that were scheduled before its lease ends, for the end of the lease to count."""
        if len(self.links) >= MOST_ENDED:
            self.links.clear()  # of leases that ended without details, or never
        self.links[lease_id] = links, new, own

    def ended(self, lease: Lease, ending: Finish, new: int = 0, own: int = 0) -> None:
        """Note an attempt that ended with details."""
        outcome, status, links, error, digest = ending.outcome, ending.status, 0, "", None
        kind = KINDS.get(outcome)
        if kind is None or (lease.key[keys.DIRECTIVE] == _HIGHEST and kind in (SUCCESS, DISREGARDED)):
            return  # robots.txt files are no pages; that they fail says that their host does
        if ending.discovered:
            links, new, own = _without_revisits(lease.uri, ending.discovered, new, own)
        elif self.links:
            links, new, own = self.links.pop(lease.id, (0, 0, 0))
        if kind == DISREGARDED:
            answer = UNKNOWN
        else:
            error = kind_of(outcome, status, ending.reason)
            answer = answer_class(outcome, status, error)
            if answer != UNKNOWN:
                total = ANSWERS[answer]
                setattr(self._counters, total, getattr(self._counters, total) + 1)
            if ending.digest and kind == SUCCESS and status < REDIRECTION and not lease.uri.force:
                digest = xxh3_64_intdigest(ending.digest)
        seconds = None if lease.landed else ending.fetch_seconds
        self.attempts.append((lease.queue_id, kind, seconds, links, new, own, ending.size, answer, error, digest))
        if len(self.attempts) >= MOST_ENDED:
            self.flush()

    def noted(self, answers: Sequence[int]) -> None:
        """Add up answers by class, of attempts that the kernel has noted; count all attempts if they are too many."""
        if any(answers):
            for total, number in zip(ANSWERS, answers, strict=True):
                setattr(self._counters, total, getattr(self._counters, total) + number)
        if len(self.attempts) >= MOST_ENDED:
            self.flush()

    def landed(self, lease: Lease, fetch_seconds: float) -> None:
        """Note the duration of a download whose lease has landed."""
        self.attempts.append((lease.queue_id, LANDED, fetch_seconds, 0, 0, 0, 0, UNKNOWN, "", None))

    def flush(self) -> None:
        """Count the attempts, and write the rows."""
        if len(self.attempts):
            histories, answers = self.attempts.counted(self._history, partial(self._get, keys.ANSWERS), _usual)
            self._env.txn.cursor(self._env.db[keys.HISTORY]).putmulti(histories)
            self._env.txn.cursor(self._env.db[keys.ANSWERS]).putmulti(answers)

    def _history(self, key: bytes) -> bytes | None:
        value = self._get(keys.HISTORY, key)
        if value is not None and len(value) != keys.history.size:
            keys.history.unpack(value)  # raises Damage
        return value

    def _get(self, table: str, key: bytes) -> bytes | None:
        return self._env.txn.get(key, db=self._env.db[table])


def _usual(key: bytes, value: bytes) -> bytes:
    row = decode_answers(value)
    if why := queue_answers.objection(row):
        raise Damage(f"the answers of queue {keys.u32.unpack(key)[0]}: {why}")
    return encode(row)


def _without_revisits(page: CrawlUri, found: Any, new: int, own: int) -> tuple[int, int, int]:
    """Return how many links were found, were new, and were added to the queue of the page, but for the page itself."""
    revisits = 0
    for uri in found:  # which may be refused, so that its fields may be anything
        if uri.__class__ is CrawlUri and uri.force is True and uri.url.__class__ is str and uri.url == page.url:
            revisits += 1
    new = max(new - revisits, 0)
    return len(found) - revisits, new, min(own, new)
