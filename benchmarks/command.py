"""The cost of one command of the command line, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import NamedTuple

CODE = """
import resource, sys
from budgetfrontier.tools.cli import main
try:
    main(sys.argv[1:])
finally:
    used = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    seconds = sum(one.ru_utime + one.ru_stime for one in used)
    print(status["VmHWM"].split()[0], status["RssAnon"].split()[0], seconds, file=sys.stderr)
"""


class Measured(NamedTuple):
    """The cost of one command: seconds that passed, seconds of processor time, and memory in MiB.

    `memory` is the most that was resident, pages of the frontier's file included; `anonymous` is without them, at the
    end.
    """

    passed: float
    processor: float
    memory: float
    anonymous: float


def measure(*arguments: object) -> Measured:
    """Run a command. Raises CalledProcessError if it fails."""
    start = time.perf_counter()
    command = (sys.executable, "-c", CODE, *map(str, arguments))
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=True, text=True)
    passed = time.perf_counter() - start
    memory, anonymous, processor = map(float, done.stderr.split()[-3:])
    return Measured(passed, processor, memory / 1024, anonymous / 1024)
