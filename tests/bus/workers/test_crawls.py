"""Whole crawls in memory: every start order, kills between any two parts of a step, stops, two of each process."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.bus.workers.world import PROCESSES, World, a_graph
from tests.examples import few


def assert_everything_counted_once(world: World) -> None:
    """Every URL was fetched, has succeeded in one frontier, and was charged for each attempt that counts."""
    totals = world.totals()
    assert set(world.fetched) == set(world.graph)
    assert sum(total.succeeded for total in totals) == len(world.graph)
    assert sum(total.seen for total in totals) == len(world.graph)
    assert [total.expenditure for total in totals] == [total.succeeded + total.retried for total in totals]
    assert not any(total.queued or total.dead or total.future for total in totals)


@few(8)
@given(order=st.permutations(PROCESSES), steps=st.lists(st.integers(0, 5), max_size=5))
def test_every_start_order(order: list[str], steps: list[int]) -> None:
    """Without a kill each URL is fetched once, however late a process is started."""
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder), a_graph())
        for name, count in zip(order, [*steps, *[0] * len(order)], strict=False):
            world.start(name)
            for _ in range(count):
                for running in world.running:
                    world.step(running)
        world.finish(order)
        assert_everything_counted_once(world)
        assert set(world.fetched.values()) == {1}
        world.close()


KILLED, STOPPED, FAILING = range(5), 5, range(6, 15)

Plan = list[list[int]]
"""What happens to each process in each round: killed after so many parts of a step, stopped, or a call fails."""


def plans(processes: int) -> st.SearchStrategy[Plan]:
    each = st.one_of(st.sampled_from([*KILLED, STOPPED, 99]), st.sampled_from([*FAILING, 99, 99, 99]))
    return st.lists(st.lists(each, min_size=processes, max_size=processes), min_size=10, max_size=25)


def carry_out(world: World, plan: Plan, processes: tuple[str, ...]) -> None:
    """Let all processes work, in turn, while it happens."""
    for planned in plan:
        for name in PROCESSES:
            world.start(name)
        for name, what in zip(processes, planned, strict=True):
            if what in FAILING:
                world.fail_call(what - FAILING.start)
            world.step(name, what if what in KILLED else 9)
            if what in KILLED:
                world.kill(name)
            elif what == STOPPED:
                world.stop(name)
        for name in set(world.running) - set(processes):
            world.step(name)


@few(5)
@given(plan=plans(len(PROCESSES)), wait=st.sampled_from([0.0, 35.0, 70.0]), bound=st.booleans())
def test_whatever_dies(plan: Plan, wait: float, bound: bool) -> None:
    """A kill between any two parts of a step loses nothing, and nothing is counted or charged twice."""
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder), a_graph(), bound=bound, failures=2)
        carry_out(world, plan[:10], PROCESSES)
        world.clock.advance(wait)
        carry_out(world, plan[10:], PROCESSES)
        world.finish()
        assert_everything_counted_once(world)
        world.close()


WORKERS = ("db0", "db1", "strategy0", "strategy1")


@few(5)
@given(plan=plans(len(WORKERS)))
def test_workers_that_die_hold_nothing_up(plan: Plan) -> None:
    """What was leased is sent, though the worker dies in between: no lease expires, and a spider fetches each once."""
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder), a_graph())
        carry_out(world, plan, WORKERS)
        world.finish()
        assert_everything_counted_once(world)
        assert not any(total.expired for total in world.totals())
        assert set(world.fetched.values()) == {1}
        world.close()
