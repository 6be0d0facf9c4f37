"""The process of a simulation: it ends with the one that has begun it, without a word."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec

from budgetfrontier.rules.simulation import Question
from tests.tools.simulation.test_simulated_crawl import crawled

PROCESS = [sys.executable, "-m", "budgetfrontier.tools.simulation.simulation_process"]


def begun(path: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([*PROCESS, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def asked(process: subprocess.Popen[bytes], question: Question) -> None:
    assert process.stdin is not None
    process.stdin.write(msgspec.json.encode(question) + b"\n")
    process.stdin.flush()


def test_it_ends_with_the_process_that_began_it(tmp_path: Path) -> None:
    start = crawled(tmp_path, found=3)
    with begun(tmp_path) as process:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        asked(process, Question(start=start, fetchers=4, most=1 << 40))
        assert process.stdout.readline()
        process.stdin.close()
        assert process.wait(300) == 1
        assert process.stderr.read() == b""


def test_it_says_nothing_if_nobody_reads(tmp_path: Path) -> None:
    start = crawled(tmp_path)
    with begun(tmp_path) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        asked(process, Question(start=start, fetchers=4))
        assert process.wait(300) < 0
        assert process.stderr.read() == b""


def test_it_says_nothing_if_nothing_is_asked(tmp_path: Path) -> None:
    with begun(tmp_path) as process:
        assert process.communicate(b"") == (b"", b"")
