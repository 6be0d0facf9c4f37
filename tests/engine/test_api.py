"""The protocols of a frontier: each frontier has their methods, with their parameters."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from budgetfrontier import Frontier
from budgetfrontier.cluster.asynchronous import AsyncClusterFrontier
from budgetfrontier.cluster.client import ClusterFrontier
from budgetfrontier.engine.api import AsyncFrontier, SyncFrontier
from budgetfrontier.engine.internals import Internals
from budgetfrontier.remote import AsyncRemoteFrontier, RemoteFrontier

if TYPE_CHECKING:

    def _are_frontiers(
        own: Frontier,
        remote: RemoteFrontier,
        cluster: ClusterFrontier,
        async_remote: AsyncRemoteFrontier,
        async_cluster: AsyncClusterFrontier,
    ) -> tuple[list[SyncFrontier], list[AsyncFrontier]]:
        """Have mypy compare the types, of results, too."""
        return [own, remote, cluster], [async_remote, async_cluster]


EVERYDAY = (
    "open schedule schedule_many schedule_each mark_seen find_url "
    "lease finish finish_many landed renew give_back next_ready_in commit atomic note close "
    "state settings adjustments summary waiting verdict report queue dead_letters audit check "
    "adjust withdraw undo pause resume terminate retire unretire snooze wake set_queue delete replay drop_dead_letters "
    "internals"
)
"""What `Frontier` has, in the order of use. What only crawlers, servers and integrations need is in its `internals`."""


def test_a_frontier_has_the_everyday_methods_in_the_order_of_use() -> None:
    assert [name for name in vars(Frontier) if not name.startswith("_")] == EVERYDAY.split()
    assert not {name for name in vars(Internals) if not name.startswith("_")} & set(EVERYDAY.split())


def methods(protocol: Any) -> Iterator[tuple[str, Any]]:
    for name, member in vars(protocol).items():
        if name == "__exit__" or not name.startswith("_"):
            yield name, member


CASES = [
    *((kind, *member) for kind in (Frontier, RemoteFrontier, ClusterFrontier) for member in methods(SyncFrontier)),
    *((kind, *member) for kind in (AsyncRemoteFrontier, AsyncClusterFrontier) for member in methods(AsyncFrontier)),
]


@pytest.mark.parametrize(("kind", "name", "member"), CASES, ids=[f"{case[0].__name__}.{case[1]}" for case in CASES])
def test_a_frontier_has_each_method_of_its_protocol(kind: type, name: str, member: Any) -> None:
    has = inspect.getattr_static(kind, name)
    assert isinstance(has, property) == isinstance(member, property)
    if isinstance(member, property):
        return
    assert inspect.iscoroutinefunction(has) == inspect.iscoroutinefunction(member)
    offered = inspect.signature(has).parameters
    takes_any = any(each.kind is each.VAR_KEYWORD for each in offered.values())
    for parameter in inspect.signature(member).parameters.values():
        if parameter.name in offered:
            found = offered[parameter.name]
            assert (found.kind, found.default) == (parameter.kind, parameter.default)
        else:
            assert takes_any and parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_KEYWORD)
