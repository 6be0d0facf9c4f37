"""What the campaign of faults found."""

from __future__ import annotations

import pytest

from budgetfrontier import CrawlUri
from budgetfrontier.model import Directive
from tests.support import memory, one, pages, paths


@pytest.mark.xfail(reason="engine/heads.py looks for what is out only when it remembers nothing of the queue")
def test_a_uri_that_is_out_stays_out_when_another_overtakes_it() -> None:
    frontier = memory(hold_queues=False, concurrency=4)
    frontier.schedule_many(pages("A", 4))
    one(frontier)
    frontier.schedule(CrawlUri("https://a.test/first", directive=Directive.HIGHEST))
    assert paths(frontier.lease(1)) == ["first"]
    assert paths(frontier.lease(2)) == ["1", "2"]
