"""The running job of the tests: an engine in a process of its own that leases and finishes until its stdin ends."""

from __future__ import annotations

import select
import sys

from budgetfrontier import Frontier, Outcome


def main(path: str) -> None:
    with Frontier.open(path) as frontier:
        print("running", flush=True)
        wait = 0.0
        while not select.select([sys.stdin], [], [], wait)[0]:
            for lease in frontier.lease(4):
                frontier.finish(lease, Outcome.SUCCESS, fetch_seconds=0.1)
            frontier.commit()
            wait = min(frontier.next_ready_in() or 0.01, 0.01)


if __name__ == "__main__":
    main(sys.argv[1])
