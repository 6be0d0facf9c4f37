"""Measurements: of the frontier against its peers (`python -m benchmarks`) and as it grows (`benchmarks.growth`), of
whole crawls (`benchmarks.crawl`), and of the integrations with Scrapy and asyncio (`benchmarks.integrations`).

All write tables to `results/`; `make bench`, `make growth`, `make crawl-bench` and `make integrations-bench` run them.

streams.py   seeded URLs, the same for every contestant
measure.py   measurements of our frontier, each in a process of its own
peers.py     the peers: Scrapy's scheduler, queuelib, and Redis (redis_peer.py)
floor.py     the floor: bare LMDB that writes the same rows as our frontier (rows.py), and does nothing else
figures.py   the rows of the table, with their targets
legs.py      our frontier and the floor as they grow, in turn
stalls.py    what happens when very many queues change at once
crawl.py     whole crawls, by our crawler and by Scrapy (crawl_scrapy.py), of one site (crawl_site.py)
integrations.py  the schedulers for Scrapy and asyncio, leases, and their peers (integrations_measure.py, aio.py)
plots.py     the curves, which publish.py puts into the documentation with the tables (`make plots`)
"""

from __future__ import annotations
