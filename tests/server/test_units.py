"""The units for systemd: that it understands them, and that what they run serves."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.server.urlfrontier.service_client import Client, Process, discovered
from tests.support import PATIENCE, free_port

DEPLOY = Path(__file__).parents[2] / "config" / "deploy"
PROXY = Path("/usr/lib/systemd/systemd-socket-proxyd")


def needed(program: str | Path) -> str:
    """The path of a program of systemd. Where it is missing, the tests are skipped; in CI they fail."""
    found = shutil.which(program)
    if found is None:
        assert os.environ.get("CI") != "true", f"{program} is not installed"
        pytest.skip(f"the units for systemd were NOT tested: {program} is not installed")
    return found


def value(unit: Path, name: str) -> list[str]:
    """The values that a unit gives to a setting."""
    return re.findall(rf"^{name}=(.*)$", unit.read_text(), re.MULTILINE)


def command_of(unit: Path, environment: Mapping[str, str], places: Mapping[str, Path]) -> list[str]:
    """The command that a unit runs, as systemd expands it, with files elsewhere."""
    (line,) = value(unit, "ExecStart")
    words = []
    for word in line.split():
        if re.fullmatch(r"\$\w+", word):
            words += shlex.split(environment[word[1:]])
        else:
            words.append(re.sub(r"\$\{(\w+)\}", lambda name: environment[name[1]], word))
    for old, new in places.items():
        words = [word.replace(old, str(new)) for word in words]
    return words


def environment_of(*units: Path) -> dict[str, str]:
    return dict(pair.split("=", 1) for unit in units for pair in value(unit, "Environment"))


@pytest.mark.parametrize("on_demand", [False, True])
def test_systemd_accepts_the_units(tmp_path: Path, on_demand: bool) -> None:
    analyze = needed("systemd-analyze")
    shutil.copy(DEPLOY / "budgetfrontier.service", tmp_path)
    if on_demand:
        shutil.copytree(DEPLOY / "on-demand", tmp_path, dirs_exist_ok=True)
    program = tmp_path / "budgetfrontier"
    program.touch(mode=0o755)
    units = [path for path in tmp_path.iterdir() if path.suffix in (".service", ".socket")]
    for unit in units:
        unit.write_text(unit.read_text().replace("/opt/budgetfrontier/bin/budgetfrontier", str(program)))
    done = subprocess.run(
        [analyze, "verify", "--man=no", *units], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


class Unit(Process):
    """The command of a unit, run without systemd."""

    def __init__(self, jobs: Path, command: Sequence[str], address: str) -> None:
        self.jobs, self.address, self.errors = jobs, address, Path(f"{jobs}.log")
        with self.errors.open("wb") as log:
            self.popen = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)


def places(tmp_path: Path) -> dict[str, Path]:
    return {
        "/opt/budgetfrontier/bin": Path(sys.executable).parent,
        "/var/lib/budgetfrontier": tmp_path,
        "/run/budgetfrontier": tmp_path,
    }


def test_the_command_of_the_service_serves(tmp_path: Path) -> None:
    unit = DEPLOY / "budgetfrontier.service"
    environment = environment_of(unit) | {"LISTEN": f"unix:{tmp_path / 's'}", "OPTIONS": "--close-after 1h"}
    command = command_of(unit, environment, places(tmp_path))
    with Unit(tmp_path / "jobs", command, environment["LISTEN"]) as server, server.client() as client:
        assert client.put(discovered("http://a.test/")) == [0]
        assert server.stop() == 0
        assert '"event": "started"' in server.errors.read_text()


def test_a_connection_to_the_socket_reaches_the_server_through_the_proxy(tmp_path: Path) -> None:
    activate = needed("systemd-socket-activate")
    needed(PROXY)
    folder = DEPLOY / "on-demand"
    environment = environment_of(
        DEPLOY / "budgetfrontier.service", folder / "budgetfrontier.service.d" / "on-demand.conf"
    )
    command = command_of(DEPLOY / "budgetfrontier.service", environment, places(tmp_path))
    proxy = command_of(folder / "budgetfrontier-proxy.service", {}, places(tmp_path))
    (listens,) = value(folder / "budgetfrontier-proxy.socket", "ListenStream")
    assert listens == environment_of(DEPLOY / "budgetfrontier.service")["LISTEN"]
    address = f"127.0.0.1:{free_port()}"
    inner = environment["LISTEN"].replace("/run/budgetfrontier", str(tmp_path))
    with Unit(tmp_path / "jobs", command, inner) as server, server.client():
        activated = subprocess.Popen(
            [activate, "--listen", address, *proxy], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            with Client(address) as client:
                get = client.rpc("ListCrawls")
                get(b"", timeout=PATIENCE, wait_for_ready=True)
                assert client.put(discovered("http://a.test/")) == [0]
                assert client.get() == ["http://a.test/"]
        finally:
            activated.kill()
            activated.wait(PATIENCE)
