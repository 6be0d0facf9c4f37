"""Measurements of the frontier: `python -m benchmarks` (or `make bench`) runs all and writes a table to `results/`.

streams.py   the seeded URLs that every contestant is given
measure.py   ours, one function a figure; each runs in a process of its own
peers.py     what ours is compared with: puts into LMDB and nothing else, Scrapy's scheduler
"""

from __future__ import annotations
