"""Crawls in a process of their own, as an operator runs them."""

from __future__ import annotations

import json
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from budgetfrontier.tools.cli import common, main
from tests.crawler.site import Site
from tests.forked import ForkedProcess
from tests.support import PATIENCE

_MAIN = f"""
import sys
from budgetfrontier.tools.cli import common, main
common.ANSWER_TIMEOUT = {PATIENCE}
sys.exit(main())
"""
_HEEDED = "import signal; signal.signal(signal.SIGHUP, signal.SIG_DFL); "
COMMAND = [sys.executable, "-c", _HEEDED + _MAIN]
"""The command line. It waits for a running engine however busy the machine is, and heeds SIGHUP even under nohup."""
UNDER_NOHUP = [sys.executable, "-c", _HEEDED.replace("SIG_DFL", "SIG_IGN") + _MAIN]


@contextmanager
def started(
    site: Site,
    folder: Path,
    *seeds: str,
    command: Sequence[str] = (),
    options: Sequence[str] = (),
    **sections: Any,
) -> Iterator[subprocess.Popen[str] | ForkedProcess]:
    """Run `budgetfrontier crawl` with options on a configuration in `folder`; its job is in folder/job.

    It is forked, unless there is a command that starts it.
    """
    config = {
        "seeds": list(seeds),
        "fetch": {"resolve": {"*.test": site.address}, "robots": "ignore", "concurrency": 4},
        "frontier": {"politeness": {"min_delay": "10ms", "delay_factor": 0, "max_delay": "1s"}},
        **sections,
    }
    (folder / "crawl.yaml").write_text(json.dumps(config))
    crawl = ["crawl", str(folder / "crawl.yaml"), "--job", str(folder / "job"), *options]
    with (
        subprocess.Popen([*command, *crawl], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if command
        else ForkedProcess(forked_main, *crawl)
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def forked_main(*arguments: str) -> None:
    """Run the command line in a forked process, as COMMAND does."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    common.ANSWER_TIMEOUT = PATIENCE
    sys.exit(main([*arguments]))


def forked_main_in(folder: str, *arguments: str) -> None:
    """Run the command line in a forked process as a shell in that folder does, with PYTHONPATH=."""
    os.chdir(folder)
    sys.path.insert(0, "")
    forked_main(*arguments)


def forked_script_in(folder: str, script: str) -> None:
    """Run a script of a folder in a forked process, as `python SCRIPT` there."""
    os.chdir(folder)
    sys.path.insert(0, "")
    runpy.run_path(script, run_name="__main__")


def end(process: subprocess.Popen[str] | ForkedProcess) -> tuple[int, str]:
    """The exit code and what was said on stderr."""
    out, said = process.communicate(timeout=PATIENCE)
    assert out == ""
    return process.wait(), said
