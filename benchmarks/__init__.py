"""Measurements: of the frontier against its peers (`python -m benchmarks`) and as it grows (`benchmarks.growth`), of
whole crawls (`benchmarks.crawl`), and of the integrations with Scrapy and asyncio (`benchmarks.integrations`).

All write tables to `results/`; `make bench`, `make growth`, `make crawl-bench` and `make integrations-bench` run them.

streams.py   the seeded URLs that every contestant is given
measure.py   ours, one function a figure; each runs in a process of its own
peers.py     what ours is compared with: Scrapy's scheduler, queuelib, and Redis (redis_peer.py)
floor.py     and LMDB given the rows that ours writes (rows.py), and nothing else
figures.py   the lines of the table, and what they must reach
legs.py      ours and the floor as they grow, in turn
stalls.py    what happens when very many queues change at once
crawl.py     whole crawls, by ours and by Scrapy (crawl_scrapy.py), of one web (crawl_site.py)
integrations.py  the schedulers for Scrapy and asyncio, leases, and their peers (integrations_measure.py, aio.py)
plots.py     the curves, which publish.py puts into the documentation with the tables (`make plots`)
"""

from __future__ import annotations
