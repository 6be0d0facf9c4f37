"""Wrong values of callers: both kernels refuse the same ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from budgetfrontier import CrawlUri, Frontier, Outcome
from budgetfrontier.engine import native
from budgetfrontier.errors import WrongType
from tests.engine.native.player import Options, Player, Step, without_kernel
from tests.support import on_disk

URL = "https://a.test/1"
BAD: list[dict[str, Any]] = [
    {"priority": "high"},
    {"meta": {"a": 1 << 70}},
    {"hops": None},
    {"via": b"x"},
    {"payload": "x"},
]


@pytest.mark.skipif(native.kernel is None, reason=native.described())
@pytest.mark.parametrize(
    "settings", [{}, {"queue_total_budget": 9, "cost_policy": "wag"}, {"keep_urls": True}], ids=str
)
def test_a_bad_uri_is_invalid_though_its_url_was_seen_a_moment_ago(tmp_path: Path, settings: dict[str, Any]) -> None:
    uris = [CrawlUri(URL, **fields) for fields in BAD]
    given = [URL, *uris, CrawlUri(URL, payload=b"x"), CrawlUri(URL, meta={"a": 1})]
    ours = Player()
    ours.open(str(tmp_path / "native"), {"frontier": settings}, Options(keep_leases=False, tells_finishes=False))
    with without_kernel() as python:
        python("new")
        python("open", str(tmp_path / "python"), {"frontier": settings}, Options(False, False))
        for step in [Step("schedule_each", (given,)), *(Step("schedule", (uri,)) for uri in uris), Step("look")]:
            result = ours.do(step).result
            assert result == python("do", step).result, step
            if step.op == "schedule_each":
                assert result[0] == ["ADDED", *["INVALID"] * len(BAD), "DUPLICATE", "DUPLICATE"]
        python("close")
    ours.close()


@pytest.mark.parametrize("answering", [False, True])
def test_a_lease_with_an_id_that_is_no_int_is_refused_by_each_call(tmp_path: Path, answering: bool) -> None:
    with on_disk(tmp_path) as f:
        f.schedule_many([f"https://{host}.test/" for host in "abc"])
        leases = f.lease(3)
        if answering:
            f.finish(leases.pop())
        for wrong in [replace(leases[0], id=float(leases[0].id)), replace(leases[0], id=str(leases[0].id))]:
            for call in _calls(f):
                with pytest.raises(WrongType, match="with the id"):
                    call(wrong)
        assert len(leases) == f.summary().in_process
        f.finish_many(leases)


def _calls(f: Frontier) -> list[Any]:
    many = [f.finish_many, f.give_back]
    return [f.finish, f.landed, f.renew, *(lambda lease, call=call: call([lease]) for call in many)]


def test_an_outcome_that_is_given_twice_is_refused(tmp_path: Path) -> None:
    with on_disk(tmp_path) as f:
        f.schedule_many([f"https://{host}.test/" for host in "abc"])
        first, second = f.lease(2)
        f.finish(first)
        with pytest.raises(TypeError, match="multiple values"):
            f.finish(second, Outcome.SUCCESS, outcome=Outcome.SUCCESS)  # type: ignore[misc]
        f.finish(second)
