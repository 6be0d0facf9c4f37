"""The sizes of tests that `make test` runs in small, and `make full` in full."""

from __future__ import annotations

import os

FULL = os.environ.get("FULL_SIZE") == "true"


def sized(small: int, full: int) -> int:
    """Return the first, in `make full` the second. The module of the test has the mark `full_size`."""
    return full if FULL else small
