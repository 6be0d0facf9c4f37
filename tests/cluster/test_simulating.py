"""Simulation of a crawl in partitions, from the snapshots of all of them."""

from __future__ import annotations

import asyncio
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import Settings
from budgetfrontier.cluster.partitions.routing import partition_of_queue
from budgetfrontier.cluster.snapshots.snapshot_process import SnapshotTask, take
from budgetfrontier.core.protocol import Ended
from budgetfrontier.settings.loader import load
from budgetfrontier.settings.schema import ClusterSettings
from budgetfrontier.tools.cli import main
from budgetfrontier.tools.console import forms
from budgetfrontier.tools.console.partitioned_job import PartitionedJob
from budgetfrontier.tools.console.steer_process import SIMULATE, SteerLine, SteerOrder
from tests.cluster.log import CRAWL, PARTITIONS, Log, Owner
from tests.forked import begin_forked

PLAIN: dict[str, Any] = {"until": "finish", "fetchers": None, "max_fetches": 1000, "draws": 3, "seed": 0}
NO_OWNERS: Any = None  # any look fails
URL = f"kafka://nowhere/{CRAWL}"


def snapshot(room: Path, number: int) -> int:
    """Store a snapshot of a partition with a host; return the number of its pages."""
    host = next(f"h{n}.test" for n in range(99) if partition_of_queue(f"h{n}.test", PARTITIONS) == number)
    with closing(Owner(room / f"worker-{number}", Log(), number)) as owner:
        owner.schedule(*(f"https://{host}/{page}" for page in range(5 + number)))
        (lease,) = owner.lease()
        owner.finish(Ended(lease.id, fetch_seconds=0.5, status=200))
        owner.commit()
        folder = owner.partition.folder
        cluster = ClusterSettings(snapshots=(room / "store").as_uri())
        taken = take(SnapshotTask(str(folder / "frontier"), str(folder / "snapshot"), CRAWL, number, cluster))
        assert taken.error is None
    return 4 + number


def config(room: Path, **cluster: object) -> str:
    """Write the configuration of the workers, with what only they have."""
    (room / "store").mkdir(exist_ok=True)
    file = room / "workers.yaml"
    theirs = {"frontier": {"cost_policy": "only_there:cost"}, "seeds": [{"file": "only-there.txt"}]}
    file.write_text(json.dumps({"crawl": CRAWL, "cluster": {"partitions": PARTITIONS} | cluster, **theirs}))
    return str(file)


def test_all_partitions_are_simulated_and_added_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = config(tmp_path, snapshots=(tmp_path / "store").as_uri())
    pages = [snapshot(tmp_path, number) for number in range(PARTITIONS)]
    arguments = ["--config", file, "--draws", "2", "--format", "json", "--set", "queue_total_budget=2"]
    assert main(["simulate", "--cluster", URL, *arguments]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert found["today"]["fetches"] == sum(pages) and found["today"]["ended_by"] == "finished"
    assert found["proposed"]["fetches"] < sum(pages) and found["proposed"]["retired"] == PARTITIONS
    assert len(found["today"]["draws"]) == 2
    assert f"from snapshots of {PARTITIONS} partitions; the oldest is" in err


def test_a_simulation_passes_over_damage_and_leaves_the_store_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, store = config(tmp_path, snapshots=(tmp_path / "store").as_uri()), tmp_path / "store"
    pages = [snapshot(tmp_path, number) for number in range(PARTITIONS)]
    (good,) = store.glob(f"{CRAWL}-0002/*.snapshot")
    damaged = bytearray(good.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    good.with_name(f"{10_000:020}.snapshot").write_bytes(damaged)

    def stored() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in sorted(store.rglob("*")) if path.is_file()}

    before = stored()
    assert main(["simulate", "--cluster", URL, "--config", file, "--draws", "1", "--format", "json"]) == 0
    out, _ = capsys.readouterr()
    assert json.loads(out)["today"]["fetches"] == sum(pages)
    assert stored() == before and len(before) == PARTITIONS + 1
    for log in ("after", "before"):
        good.with_name(f"{20_000:020}-{log}.snapshot").write_bytes(good.read_bytes())
    good.unlink()
    assert main(["simulate", "--cluster", URL, "--config", file]) == 1
    told = " ".join(capsys.readouterr().err.split())
    assert "partition 2 of 'test' are of several topics, by their ids none, after, before: move those of topics" in told


def test_another_number_of_partitions_than_that_of_the_workers_is_said_and_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "store"
    file = config(tmp_path, snapshots=store.as_uri())
    snapshot(tmp_path, 0)
    names = [*store.rglob("*")]
    config(tmp_path, snapshots=store.as_uri(), partitions=PARTITIONS - 1)
    assert main(["simulate", "--cluster", URL, "--config", file]) != 0
    said = " ".join(capsys.readouterr().err.split())
    assert f"is a snapshot of partition 0 of {PARTITIONS} of 'test', and partition 0 of {PARTITIONS - 1} of" in said
    assert "set cluster.partitions and crawl as the workers" in said
    assert [*store.rglob("*")] == names


def test_the_console_simulates_the_snapshots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asyncio, "create_subprocess_exec", begin_forked)
    file = config(tmp_path, snapshots=(tmp_path / "store").as_uri())
    pages = [snapshot(tmp_path, number) for number in range(PARTITIONS)]

    def lines(workers: Settings | None) -> list[SteerLine]:
        async def steered() -> list[SteerLine]:
            job = PartitionedJob(URL, NO_OWNERS, workers=workers)
            asked = {"match": "*", "set": {"queue_total_budget": 2}}
            order = SteerOrder(SIMULATE, asked | forms.simulation("*", {}, **PLAIN).args, "me", "", True)
            return [line async for line in job.steer(order)]

        return asyncio.run(steered())

    *progress, last = lines(load(Path(file), Settings(), only=["cluster"])[0])
    assert progress and [line.done for line in progress] == sorted(line.done for line in progress)
    assert last.effect is not None and last.effect["today"]["fetches"] == sum(pages), last
    assert last.effect["proposed"]["retired"] == PARTITIONS and len(last.effect["today"]["draws"]) == 3
    assert "names no store" in lines(load(Path(config(tmp_path)), Settings(), only=["cluster"])[0])[-1].error
    assert "--config FILE" in lines(None)[-1].error


def test_what_is_missing_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def refused(*arguments: str) -> str:
        assert main(["simulate", "--cluster", URL, *arguments]) != 0
        return " ".join(capsys.readouterr().err.split())

    assert "names no store: give that of its workers" in refused("--config", config(tmp_path))
    file = config(tmp_path, snapshots=(tmp_path / "store").as_uri())
    snapshot(tmp_path, 0)
    assert f"no snapshot of partition 1 of 'test' in {(tmp_path / 'store').as_uri()} yet" in refused("--config", file)
    assert "give --config FILE, that of its workers" in refused()
