"""Links out of what was fetched, whatever its form."""

from __future__ import annotations
