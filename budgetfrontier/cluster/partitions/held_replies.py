"""The replies of a partition's owner, held until its log has the changes that they report."""

from __future__ import annotations

from collections import deque
from typing import Any

from budgetfrontier.server.tasks import Done


class HeldReplies:
    """Replies in the order of their calls. A reply without changes of its own waits for those before it.

    The frontier is ahead of its log: the claim of another worker may make void changes that were applied already.
    """

    def __init__(self) -> None:
        self._replies: deque[tuple[int, Done, Any, BaseException | None]] = deque()

    def __repr__(self) -> str:
        return f"<HeldReplies: {len(self._replies)}>"

    def hold(self, number: int, done: Done, reply: Any, error: BaseException | None) -> None:
        """Hold a reply, or the error that a call has raised, until the changes with a number are in the log."""
        self._replies.append((number, done, reply, error))

    def release(self, number: int) -> None:
        """Give the replies that wait for changes up to a number."""
        while self._replies and self._replies[0][0] <= number:
            _, done, reply, error = self._replies.popleft()
            done(reply, error)

    def refuse(self, error: BaseException) -> None:
        """Answer all calls whose replies are held with an error; their changes are dropped."""
        while self._replies:
            self._replies.popleft()[1](None, error)
