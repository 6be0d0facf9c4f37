"""Documentation that came from Debian packages, served by nginx on loopback, a host name for each set."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from tests.support import PATIENCE, free_port

DOMAIN = "docs.test"
HUB = f"http://{DOMAIN}/"
_PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/local/sbin:/usr/sbin"  # where Debian has nginx


class Documentation(NamedTuple):
    """A set of pages: its name, which its host begins with, the folder it is in, and the path where it begins."""

    name: str
    folder: Path
    start: str

    @property
    def host(self) -> str:
        """Its host name."""
        return f"{self.name}.{DOMAIN}"


SETS = {
    "python": ("python3-doc", "python3-doc/html", "index.html"),  # made by Sphinx
    "postgresql": ("postgresql-doc", "postgresql-doc-*/html", "index.html"),  # by the DocBook stylesheets
    "git": ("git-doc", "git-doc", "git.html"),  # by AsciiDoc
}
"""The package of each set, its folder below /usr/share/doc (of several the last), and its first page."""


def installed(*names: str) -> list[Documentation]:
    """The sets by name. Raises LookupError that says what is not installed here."""
    for tool in ("nginx", "wget"):
        if shutil.which(tool, path=_PATH) is None:
            raise LookupError(f"{tool} is not installed")
    found = []
    for name in names:
        package, folder, start = SETS[name]
        pages = sorted(Path("/usr/share/doc").glob(f"{folder}/{start}"))
        if not pages:
            raise LookupError(f"{package} is not installed")
        found.append(Documentation(name, pages[-1].parent, start))
    return found


class Visit(NamedTuple):
    """A line of the access log; `url` has no scheme."""

    agent: str
    status: int
    url: str


class Nginx:
    """Serves sets, and at `HUB` a page that leads to all of them. Use with `with`; `folder` is for its files.

    It also takes requests as a proxy gets them: `address` is what to resolve the hosts to, or to name as the proxy.
    """

    def __init__(self, folder: Path, sets: Sequence[Documentation]) -> None:
        self._folder, self._sets = folder, sets
        self.address = f"127.0.0.1:{free_port()}"

    def __enter__(self) -> Self:
        hub = self._folder / "hub"
        hub.mkdir(parents=True)
        (hub / "index.html").write_text(
            "".join(f'<a href="http://{one.host}/{one.start}">{one.name}</a>\n' for one in self._sets)
        )
        (self._folder / "nginx.conf").write_text(self._configuration(hub))
        command = [
            str(shutil.which("nginx", path=_PATH)),
            "-p",
            str(self._folder),
            "-e",
            "error.log",
            "-c",
            str(self._folder / "nginx.conf"),
        ]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        self._wait()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.terminate()
        self._process.wait(timeout=PATIENCE)

    def visits(self) -> list[Visit]:
        """What was asked for so far."""
        lines = (self._folder / "access.log").read_text().splitlines()
        return [Visit(agent, int(status), url) for agent, status, url in (line.split("\t") for line in lines)]

    def _wait(self) -> None:
        host, _, port = self.address.partition(":")
        deadline = time.monotonic() + PATIENCE
        while self._process.poll() is None and time.monotonic() < deadline:
            try:
                socket.create_connection((host, int(port)), timeout=PATIENCE).close()
                return
            except OSError:
                time.sleep(0.01)
        self._process.kill()
        raise RuntimeError(f"nginx does not run: {(self._folder / 'error.log').read_text()}")

    def _configuration(self, hub: Path) -> str:
        hosts = [(DOMAIN, hub), *((one.host, one.folder) for one in self._sets)]
        servers = "".join(
            f"server {{ listen {self.address}; server_name {name}; root {root}; }}" for name, root in hosts
        )
        types = "".join(f"{kind} {suffixes};" for kind, suffixes in _TYPES.items())
        temporary = "".join(f"{kind}_temp_path temporary;\n" for kind in _TEMPORARY)
        return f"""
            daemon off; master_process off; pid nginx.pid; error_log error.log warn;
            events {{ worker_connections 256; }}
            http {{
                types {{ {types} }}
                default_type application/octet-stream; charset utf-8;
                {temporary}
                log_format visits "$http_user_agent\\t$status\\t$host$request_uri"; access_log access.log visits;
                keepalive_requests 100000;
                {servers}
            }}
        """


_TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
_TYPES = {
    "text/html": "html htm",
    "text/css": "css",
    "text/javascript": "js",
    "text/plain": "txt py rst",
    "text/xml": "xml",
    "application/json": "json",
    "image/png": "png",
    "image/svg+xml": "svg",
    "image/gif": "gif",
}
