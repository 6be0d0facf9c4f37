"""An asyncio scheduler on a frontier, with the names of qcrawl's scheduler.

The frontier runs in a thread of its own (`frontier_thread`), so that a commit that waits for the disk never blocks the
event loop: one of this process (`own_frontier`), or one that several processes share (`shared_frontier`). The calls of
the tasks in one turn of the loop are one message (`turn_batching`), and the replies come back in batches, one wake-up
of the loop for each. Only the URIs that are handed out, or leased ahead, are kept here; everything else is in the
frontier.
"""

from __future__ import annotations

from budgetfrontier.aio.scheduler import Scheduler as Scheduler
