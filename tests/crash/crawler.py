"""Crawls in a process that can be killed, again and again, without paying for Python's start each time.

For each line on stdin: forks, prints the pid of the child that crawls, then, once it is gone, its exit code.
"""

from __future__ import annotations

import io
import os
import sys
import traceback
from pathlib import Path

from rich.console import Console

from budgetfrontier import Settings
from budgetfrontier.crawler.job import crawl
from budgetfrontier.crawler.progress import ProgressDisplay


def main(config: str, job: str) -> None:
    settings = Settings.from_yaml(config)
    for _ in sys.stdin:
        pid = os.fork()
        if pid == 0:
            code = 99
            try:
                code = crawl(settings, Path(job), progress=ProgressDisplay(console=Console(file=io.StringIO())))
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)  # a child must never come back into this loop
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
