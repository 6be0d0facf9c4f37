"""An asyncio scheduler on a frontier, with the names of qcrawl's scheduler.

The frontier runs in a thread of its own (`worker`), so that a commit that waits for the disk never blocks the event
loop: one of this process (`own`), or one that `budgetfrontier serve` has open for several processes (`shared`). What
the tasks ask of the `scheduler` in one turn of the loop is one message (`outbox`), and the replies come back in
batches, one wake-up of the loop for each. Only the URIs that are handed out, or leased ahead, are kept here; everything
else is in the frontier.
"""

from __future__ import annotations

from budgetfrontier.aio.scheduler import Scheduler as Scheduler
