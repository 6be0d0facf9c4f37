"""All guides are gone through in one folder, one after another as README.md and the navigation list them.

Files are written and commands are run as printed, with these differences: every name of a host leads to a site on
loopback, which is fetched without delay; ports are free ones; JOB and JOBDIR are `news`; the ids of audit entries are
those of this walk; PYTHONPATH is set as the page on policies says. What a page takes as given, such as a host that has
been crawled, is there before (`provide`). A server runs until its page ends or starts it again. `ELSEWHERE` lists what
is not run here, with the reason.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from budgetfrontier import Frontier, Reader
from tests.crawler.process import forked_main_in, forked_script_in
from tests.docs.test_examples import ROOT, Block, blocks, script_of
from tests.forked import ForkedProcess
from tests.support import PATIENCE, until

pytestmark = pytest.mark.waits

ELSEWHERE = {
    r"pip install|python3 -m venv|venv/bin/activate": "the package is installed",
    r"^make |python -m build": "targets of the Makefile",
    r"docker|systemctl|/etc/|useradd|/opt/": "needs root or Docker",
    r"kafka|--cluster|budgetfrontier (worker|partitions)": "needs Kafka: tests/cluster",
    r"frontera\.strategy": "needs an old w3lib: tests/bus/workers/test_frontera_strategy.py",
    r"^scrapy ": "needs a project of Scrapy: tests/scrapy, tests/bus",
    r"budgetfrontier demo": "takes a quarter of a minute: tests/crawler/test_demo.py",
    r"completion": "needs an interactive shell: tests/tools/cli",
}
PAGES_ELSEWHERE = {
    "docs/howto/survive.md": "reports what was measured on a disk of its own: tests/crawler/test_survival.py",
    "docs/howto/migrate.md": "needs the files of other crawlers: tests/docs/test_migrate.py",
}
ENTRIES = {
    r"(?<=--remove )\d+": ("adjust", "news", "--list"),
    r"(?<=undo news )\d+(?= --list)": ("audit", "news", "--operation", "adjust"),
    r"(?<=undo news )\d+\b(?! --list)": ("audit", "news", "--operation", "delete"),
}
"""Commands that list what other commands may name, by how those name it."""
SERVER = re.compile(r"budgetfrontier (serve|console|bus-broker|bus-worker)|python3? -m (http\.server)")
PORTS = ("8000", "8089", "7071", "5550")


def test_all_guides_work_one_after_another_in_one_folder(tmp_path: Path) -> None:
    with site() as port:
        walk = Walk(tmp_path, port)
        for page in in_order():
            walk.go_through(page)
    assert walk.failed == []
    assert {*walk.elsewhere.values()} == {*ELSEWHERE.values(), *PAGES_ELSEWHERE.values()}
    assert len(walk.run) > 80 and len(walk.run) > 2 * len(walk.elsewhere), (walk.run, walk.elsewhere)


def in_order() -> list[Path]:
    """Return README.md and the pages of the documentation, as the navigation lists them."""
    pages, waiting = [ROOT / "README.md"], [ROOT / "docs/index.md"]
    while waiting:
        page = waiting.pop(0)
        pages.append(page)
        for tree in re.findall(r"```\{toctree\}(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
            entries = [line.partition("<")[2].rstrip(">") or line for line in tree.splitlines()]
            named = [entry.strip() for entry in entries if entry.strip() and not entry.startswith(":")]
            waiting[:0] = [(page.parent / entry).with_suffix(".md") for entry in named]
    return list(dict.fromkeys(pages))


def commands(block: Block) -> list[str]:
    """Return the commands of a block: of a session, the lines after a prompt."""
    lines = block.text.replace("\\\n", " ").splitlines()
    if block.language == "console":
        return [line[2:] for line in lines if line.startswith(("$ ", "# "))]
    return [line for line in lines if line.strip() and not line.startswith("#")] if block.language == "sh" else []


class Walk:
    """A reader in a folder, and what came of the commands."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self._site = folder, f"127.0.0.1:{port}"
        self._ports = dict(zip(PORTS, free_ports(), strict=False))
        self._servers: dict[str, ForkedProcess | subprocess.Popen[Any]] = {}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self._environment = {**os.environ, "PATH": path, "PYTHONPATH": "."}
        self.run: list[str] = []
        self.elsewhere: dict[str, str] = {}
        self.failed: list[str] = []

    def go_through(self, page: Path) -> None:
        """Write the files of a page and run its commands, then its Python."""
        name = str(page.relative_to(ROOT))
        if provide := PROVIDED.get(name):
            provide(self.folder)
        try:
            for block in blocks(page):
                if block.file:
                    (self.folder / block.file).write_text(self._on_loopback(block), encoding="utf-8")
                for command in commands(block):
                    reasons = [why for what, why in ELSEWHERE.items() if re.search(what, command)]
                    if reason := PAGES_ELSEWHERE.get(name) or next(iter(reasons), None):
                        self.elsewhere[command] = reason
                    else:
                        self._try(name, command)
            if script := script_of(page):
                (self.folder / "page.py").write_text(script, encoding="utf-8")
                self._ends_well(f"{name}: its Python", ForkedProcess(forked_script_in, str(self.folder), "page.py"))
        finally:
            for server in [*self._servers]:
                self._end(server)

    def _on_loopback(self, block: Block) -> str:
        """Return a file as printed, but for names, certificates and delays of the site."""
        text = self._here(block.text)
        if block.language != "yaml":
            return text
        config = yaml.safe_load(text)
        if isinstance(config, list):  # of adjustments
            return text
        fetch, frontier = config.setdefault("fetch", {}), config.setdefault("frontier", {})
        config["fetch"] = {"resolve": {"*": self._site}, "verify_tls": False} | fetch
        frontier["politeness"] = {"min_delay": "10ms", "delay_factor": 0}
        if fetch.get("proxy"):
            config["fetch"]["proxy"] = None
        return yaml.safe_dump(config)

    def _here(self, text: str) -> str:
        for port, free in self._ports.items():
            text = re.sub(rf"\b{port}\b", free, text)
        text = re.sub(r"\b(192\.0\.2\.7|10\.0\.0\.5)\b", "127.0.0.1", text)
        return re.sub(r"\bJOB(DIR)?\b", "news", text)

    def _try(self, page: str, command: str) -> None:
        self.run.append(command)
        command = self._with_ids(self._here(command))
        if server := SERVER.search(command):
            self._begin(server[1] or server[2], command)
        elif command.startswith("budgetfrontier ") and not re.search("[|<>]", command):
            words = shlex.split(command, comments=True)[1:]
            self._ends_well(f"{page}: {command}", ForkedProcess(forked_main_in, str(self.folder), *words))
        else:
            self._ends_well(f"{page}: {command}", self._shell(command))

    def _shell(self, command: str) -> subprocess.Popen[Any]:
        return subprocess.Popen(
            ["bash", "-ec", command],
            cwd=self.folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def _ends_well(self, what: str, process: ForkedProcess | subprocess.Popen[Any]) -> str:
        with process:
            out, errors = process.communicate(timeout=PATIENCE)
            if process.wait():
                self.failed.append(f"{what}\n{out}{errors}")
        return out

    def _with_ids(self, command: str) -> str:
        """Return a command on an audit entry with the id of the newest that it can be on."""
        for named, listing in ENTRIES.items():
            if re.search(named, command):
                program = ForkedProcess(forked_main_in, str(self.folder), *listing, "--format", "json")
                entries = self._ends_well("", program)
                newest = max(entry["id"] for entry in json.loads(entries))
                command = re.sub(named, str(newest), command)
        return command

    def _begin(self, name: str, command: str) -> None:
        """Start a server, and wait until it answers."""
        self._end(name)
        words = shlex.split(command, comments=True)
        if name == "bus-worker":
            words += ["--bus", f"zmq+tcp://127.0.0.1:{self._ports['5550']}"]
        with (self.folder / f"{name}.log").open("wb") as log:
            process = (
                ForkedProcess(forked_main_in, str(self.folder), *words[1:], log=log)
                if words[0] == "budgetfrontier"
                else subprocess.Popen([sys.executable, "-u", *words[1:]], cwd=self.folder, stdout=log, stderr=log)
            )
        self._servers[name] = process
        until(lambda: (self.folder / f"{name}.log").stat().st_size, process)

    def _end(self, name: str) -> None:
        if process := self._servers.pop(name, None):
            process.send_signal(signal.SIGINT)
            with process:
                code = process.wait(PATIENCE)
            if code not in (0, 130):
                self.failed.append(f"{name}\n{(self.folder / f'{name}.log').read_text(encoding='utf-8')}")


def pause_reason(path: Path) -> str | None:
    with Reader(path) as reader:
        return reader.summary().pause_reason


def begun(folder: Path, job: str, *urls: str) -> None:
    """Let a job have URLs."""
    with Frontier.open(folder / job / "frontier") as frontier:
        frontier.schedule_many(urls)


def provide_hosts(folder: Path) -> None:
    hosts = ("slow.example.org", "spam.example.org", "calendar.example.org", "calendar.example")
    begun(folder, "news", *(f"https://{host}/" for host in hosts))
    (folder / "more-seeds.txt").write_text("https://www.example.org/more\n", encoding="utf-8")


def end_the_pause(folder: Path) -> None:
    """Resume the crawl that the page on the console has paused for the night, once its command is applied."""
    until(lambda: pause_reason(folder / "news/frontier") == "night")
    with Frontier.open(folder / "news/frontier") as frontier:
        frontier.resume()


def provide_traps(folder: Path) -> None:
    begun(folder, "news", *(f"https://calendar.example.org/calendar/{time.time_ns()}/{n}" for n in range(3)))


PROVIDED: dict[str, Callable[[Path], None]] = {
    "docs/howto/adjust.md": provide_traps,
    "docs/operators.md": provide_traps,
    "docs/index.md": provide_hosts,
    "docs/howto/api.md": end_the_pause,
    "docs/howto/serve.md": lambda folder: begun(folder, "jobs/DEFAULT", "https://calendar.example.org/"),
}


class Pages(BaseHTTPRequestHandler):
    """A site for every name: a few pages that link to each other and to another host."""

    def do_GET(self) -> None:
        links = "".join(f'<a href="{url}">x</a>' for url in ("/a", "/list?page=2", "https://calendar.example.org/"))
        self.send_response(200 if self.path in ("/", "/a", "/list?page=2") else 404)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(f"<title>{self.path}</title>{links}".encode())

    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def site() -> Iterator[int]:
    """Serve `Pages` by TLS; yields the port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(ROOT / "tests/crawler/selfsigned.pem")
    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_port
        finally:
            server.shutdown()


def free_ports() -> Iterator[str]:
    """Yield free ports below those that the system gives to other tests, which ask for any."""
    for port in range(20_000 + os.getpid() % 10_000, 32_768):
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        yield str(port)
