"""Items and kills: with the recipe of the manual none of a finished request is missing."""

from __future__ import annotations

import json
import math
import re
from functools import partial
from pathlib import Path
from typing import Any

from tests.crawler.site import Site
from tests.scrapy.process import crawl, started
from tests.scrapy.test_crawls import JOB, done, has_done, mesh
from tests.support import until

PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "scrapy.md").read_text(encoding="utf-8")
[RECIPE] = re.findall(r"^```python\n# feeds\.py\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)

SPIDER = (
    RECIPE
    + """
class Mine(Links):
    custom_settings = {"CONCURRENT_REQUESTS": 4}
    seeds = ("a/0", "b/0", "c/0")

    def parse(self, response):
        host = response.url.partition("//")[2].partition(":")[0]
        yield {"page": f"{host}/{response.url.rpartition('/')[2]}"}
        yield from super().parse(response)
"""
)


def items(folder: Path) -> set[str]:
    """The pages whose items are in the files; the last line of one may have been cut short by a kill."""
    found = set()
    for path in folder.glob("items-*.jsonl"):
        lines = path.read_bytes().split(b"\n")
        found |= {json.loads(line)["page"] for line in lines[:-1]}
    return found


def test_a_kill_loses_no_item_of_a_finished_request(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "JOBDIR": str(tmp_path / "job"),
        "EXTENSIONS": {"scrapy.extensions.feedexport.FeedExporter": None, "__main__.DurableFeeds": 0},
        "FEEDS": {f"{tmp_path}/items-%(time)s.jsonl": {"format": "jsonlines"}},
        "BUDGETFRONTIER_SETTINGS": {**JOB["BUDGETFRONTIER_SETTINGS"], "hooks": ["__main__:on_commit"]},
    }
    with Site(mesh()) as site:
        site.bound = 60
        with started(site, tmp_path, SPIDER, **settings) as process:
            until(partial(has_done, tmp_path / "job", site, 30, set()), process)
        finished = done(tmp_path / "job", site)
        assert finished and finished <= items(tmp_path)
        site.bound = math.inf
        result = crawl(site, tmp_path, SPIDER, **settings)
    assert result.reason == "finished", result.log
    assert items(tmp_path) == set(site.pages)
