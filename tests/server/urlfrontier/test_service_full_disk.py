"""A disk that fills up under load: calls say so, nothing acknowledged is lost, and all goes on once there is room."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import grpc
import pytest

from budgetfrontier.tools.cli import main
from tests.crash.disks import Disk
from tests.crash.figures import Unavailable
from tests.server.urlfrontier.service_client import OK, Client, Process, discovered
from tests.support import until

FULL = grpc.StatusCode.RESOURCE_EXHAUSTED


def load(client: Client, name: str, kept: set[str]) -> Counter[grpc.StatusCode]:
    """Put URLs by several streams; return how these have ended."""
    ends: Counter[grpc.StatusCode] = Counter()
    for stream in range(20):
        urls = [f"http://h{n % 50}.test/{name}/{stream}/{n}/{'x' * 200}" for n in range(500)]
        try:
            for ack in client.rpc("PutURLs")(iter([discovered(url) for url in urls])):
                assert ack.status == OK
                kept.add(ack.ID)
        except grpc.RpcError as e:
            ends[e.code()] += 1
        else:
            ends[grpc.StatusCode.OK] += 1
    return ends


def test_a_full_disk_under_load(tmp_path: Path) -> None:
    folder, kept = tmp_path / "disk", set[str]()
    folder.mkdir()
    disk, jobs = Disk(folder), folder / "jobs"
    try:
        disk.mount(size=64 << 20)
    except Unavailable as e:
        pytest.skip(str(e))
    try:
        with Process(jobs, listen=f"unix:{tmp_path / 'socket'}") as server, server.client() as client:
            client.put(discovered("http://first.test/"))
            disk.fill(500)
            ends = load(client, "full", kept)
            assert ends.keys() == {FULL, grpc.StatusCode.OK}
            disk.fill(0)
            with pytest.raises(grpc.RpcError) as caught:
                client.SetActive(state=False)
            assert caught.value.code() is FULL
            with pytest.raises(grpc.RpcError) as caught:
                client.put(discovered("http://a.test/", "new"))
            assert caught.value.code() is FULL
            assert client.GetActive().state is True
            os.truncate(folder / "filler", 0)
            until(lambda: load(client, f"after{len(kept)}", kept).keys() == {grpc.StatusCode.OK}, server.popen)
            assert client.put(discovered("http://a.test/", "new")) == [OK]
            assert kept <= {item.known.info.url for item in client.ListURLs(crawlID="c", size=1 << 30)}
            assert server.stop() == 0
        assert main(["verify", str(jobs / "c")]) == 0
    finally:
        disk.unmount()
