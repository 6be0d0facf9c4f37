"""The Dockerfile: that what it runs serves, and that its health check tells. It is built nowhere in the tests."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from tests.server.test_units import DEPLOY, Unit
from tests.server.urlfrontier.service_client import discovered
from tests.support import PATIENCE, free_port

TEXT = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")


def words(pattern: str) -> list[str]:
    """The words of the command in its exec form that follows a pattern."""
    (found,) = re.findall(rf"^{pattern}\s+(\[.*\])$", TEXT, re.MULTILINE)
    command: list[str] = json.loads(found)
    return command


def run(command: list[str], address: str) -> list[str]:
    """A command of the image, with the programs of this environment, on another port."""
    program = str(Path(sys.executable).parent / command[0])
    return [
        program,
        *(word.replace("0.0.0.0:7071", address).replace("127.0.0.1:7071", address) for word in command[1:]),
    ]


def test_the_entry_point_serves_and_the_health_check_tells(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    home = "/var/lib/budgetfrontier"
    assert "0.0.0.0:7071" in words("ENTRYPOINT")
    refused = subprocess.run(
        [word.replace(home, str(tmp_path)) for word in run(words("ENTRYPOINT"), "0.0.0.0:0")],
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert refused.returncode == 1 and "--token-file" in refused.stderr
    entry = [word.replace(home, str(tmp_path)) for word in run(words("ENTRYPOINT"), address)]
    check = run(words(r"HEALTHCHECK [^\[]*CMD"), address)
    assert subprocess.run(check, timeout=PATIENCE, check=False).returncode == 1
    with Unit(tmp_path / "jobs", entry, address) as server, server.client() as client:
        assert client.put(discovered("http://a.test/")) == [0]
        assert subprocess.run(check, timeout=PATIENCE, check=False).returncode == 0
        assert server.stop() == 0


def test_the_server_is_not_root_and_owns_its_volume() -> None:
    ((user, group),) = re.findall(r"^USER (\d+):(\d+)$", TEXT, re.MULTILINE)
    (volume,) = re.findall(r"^VOLUME (\S+)$", TEXT, re.MULTILINE)
    assert f"useradd --uid {user} --gid {group} " in TEXT and f"groupadd --gid {group} " in TEXT
    assert int(user) > 0 and int(group) > 0
    assert f"--create-home --home-dir {volume} " in TEXT
    assert words("ENTRYPOINT")[2].startswith(f"{volume}/")
