"""The address of a worker that clients find."""

from __future__ import annotations

from pathlib import Path

import pytest

from budgetfrontier import Settings
from budgetfrontier.cluster.directory.kafka import Place
from budgetfrontier.cluster.workers.worker_process import own_folder, work
from budgetfrontier.errors import FrontierLocked, SettingsError
from budgetfrontier.server.stopping import Stop
from budgetfrontier.settings.schema import ClusterSettings


@pytest.mark.parametrize("listen", ["0.0.0.0:7171", "[::]:7171", ":7171"])
def test_an_address_that_nobody_can_call_is_not_published(tmp_path: Path, listen: str) -> None:
    with pytest.raises(SettingsError, match=r"clients cannot call .* give --advertise HOST:PORT"):
        work(
            Place("127.0.0.1:1", "test", {}), Settings.from_dict({"crawl": "test"}), tmp_path / "w",
            cluster=ClusterSettings(), listen=listen, advertise=None, tls=None, token=None,
            started=lambda address: None, stop=Stop(),
        )  # fmt: skip
    assert not (tmp_path / "w").exists()


def test_a_worker_that_cannot_begin_leaves_no_folder(tmp_path: Path) -> None:
    folder = tmp_path / "w" / "1"
    with pytest.raises(OSError, match="in use"), own_folder(folder):
        with pytest.raises(FrontierLocked), own_folder(folder):
            pass
        raise OSError("the address is in use")
    assert not list(tmp_path.iterdir())
    with own_folder(folder):
        (folder / "partition-0000").mkdir()
    with pytest.raises(OSError, match="in use"), own_folder(folder):
        raise OSError("the address is in use")
    assert {path.name for path in folder.iterdir()} == {"lock", "partition-0000"}
