"""A crawl of sites that are traps, and of honest archives, by HTTP: all traps are named, and no archive is."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from aiohttp import web

from budgetfrontier.reports.trap_list import suspects
from budgetfrontier.storage.reader import Reader
from tests.crawler.site import Site, linking, run
from tests.reports.test_trap_list import NOW, SIGNS
from tests.reports.trap_sites import HONEST, TRAPS, content

PAGES = 100


class TrapSites(Site):
    """Serves the sites, each at a host of its name."""

    def __init__(self) -> None:
        super().__init__({})
        self.asked: Counter[str] = Counter()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        name = request.host.partition(".")[0]
        if request.path == "/robots.txt":
            return web.Response(status=404)
        self.asked[name] += 1
        links = (TRAPS | HONEST)[name](request.path_qs, self.asked[name])
        text = f"<title>{content(name, request.path_qs)}</title>{linking(*links)}"
        return web.Response(text=text, content_type="text/html")


def test_a_crawl_of_traps_and_archives(tmp_path: Path) -> None:
    with TrapSites() as sites:
        seeds = [f"http://{name}.test/" for name in TRAPS | HONEST]
        settings = sites.settings(*seeds, scope={"max_hops": -1}, frontier={"queue_total_budget": PAGES})
        code, said = run(settings, tmp_path)
    assert code == 0, said
    with Reader(tmp_path / "frontier") as reader, reader.view() as view:
        found = suspects(view, lambda queue: True, limit=None, now=NOW)
    assert {one.queue.partition(".")[0]: one.evidence[0].code for one in found} == SIGNS
