"""An asyncio scheduler on the frontier, with qcrawl's words.

The frontier lives in a thread of its own (`worker`), so that a commit which waits for the disk never holds up the loop.
`scheduler` puts messages into its inbox and gets the answers back by the batch: tasks that wait share one hand-over.
No URI is kept here but those that were handed out; all else is in the frontier.
"""

from __future__ import annotations

from budgetfrontier.aio.scheduler import Scheduler as Scheduler
