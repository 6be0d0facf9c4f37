"""The bandwidth of a queue, a group or the crawl: a clock that each fetch sets forward by the time that its bytes take.

Nothing is leased while the clock is ahead. The bytes of a fetch are known at its end alone: what went beyond the limit
until then is waited for afterwards, so that the average is exact.
"""

from __future__ import annotations

LONGEST = 86400.0
"""The longest wait for bandwidth in seconds; the debt of what takes longer is forgiven."""


def busy_until(until: float, began: float, size: int, rate: int, now: float) -> float:
    """Return the clock after a fetch that was handed out at `began`, and has received `size` bytes."""
    return min(max(until, began) + size / rate, now + LONGEST)
