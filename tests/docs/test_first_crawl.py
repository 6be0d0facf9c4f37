"""The page "Your first crawl" is walked through as it stands: every command is run, and what it prints is compared.

Left out are the installation and the server, which the test has a server of its own for. In what the page shows, digits
may differ, digests too, and `...` stands for anything.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.docs.test_examples import ROOT, Block, blocks
from tests.support import PATIENCE

pytestmark = pytest.mark.waits

PAGE = ROOT / "docs/howto/first-crawl.md"
NOT_RUN = ("pip install", "http.server")


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[int]:
    """Serve a folder as `python -m http.server` does; yields the port."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_port
        finally:
            server.shutdown()


def pattern(line: str) -> str:
    """The regular expression of a line that the page shows."""
    what = {"\\": ".*", "s": r"sha1:\w+"}  # by the first character: of `...`, of a digest, else of a number
    return re.sub(r"(?:\\\.){3}|sha1:\w+|\d+", lambda found: what.get(found[0][0], r"\d+"), re.escape(line))


def compare(shown: Block, printed: str) -> None:
    """Every line that the page shows was printed, in that order."""
    lines = iter(printed.splitlines())
    for line in shown.text.splitlines():
        if line != "...":
            expected = re.compile(pattern(line))
            assert any(expected.fullmatch(other) for other in lines), f"{PAGE.name}: {line}\n{printed}"


def test_the_first_crawl_goes_as_the_page_says(tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    printed, compared = "", 0
    with served(tmp_path / "site") as port:
        for block in blocks(PAGE):
            if block.file:
                (tmp_path / block.file).write_text(block.text.replace(":8000", f":{port}"))
            elif block.language == "sh" and not any(words in block.text for words in NOT_RUN):
                run = subprocess.run(
                    ["bash", "-ec", block.text],
                    cwd=tmp_path,
                    env={**os.environ, "PATH": path},
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    timeout=PATIENCE,
                    check=False,
                )
                printed = run.stdout
                assert run.returncode == 0, printed
            elif block.language == "text":
                compare(block, printed)
                compared += 1
    assert compared >= 8
