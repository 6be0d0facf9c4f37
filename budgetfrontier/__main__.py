"""`python -m budgetfrontier`, and the program `budgetfrontier`."""

from __future__ import annotations

import atexit
import gc
import os
import sys

_FILES = (("stdin", os.O_RDONLY), ("stdout", os.O_RDONLY), ("stderr", os.O_WRONLY))


def main() -> int:
    """Run the command line. Ctrl-C while modules are still imported ends it without a traceback."""
    atexit.register(gc.freeze)  # so that the interpreter looks for no garbage at its end, among all that was imported
    try:
        _open_closed_files()
        if sys.argv[1:2] in (["crawl"], ["demo"]):  # they finish their fetches in flight, and say so by their exit code
            from budgetfrontier.crawler.interrupts import install_for_process

            install_for_process()
        from budgetfrontier.tools import cli

        return cli.main()
    except KeyboardInterrupt:
        return 130  # as `tools.cli.exits` has it, which may not be there yet


def _open_closed_files() -> None:
    """Open /dev/null in the place of each standard file that is closed, before any other file gets its number.

    stdin is empty, then, and messages are lost. It cannot be written to as stdout: a command whose data are lost fails,
    as if the disk were full.
    """
    for number, (name, mode) in enumerate(_FILES):
        if getattr(sys, name) is not None:
            continue
        fd = os.open(os.devnull, mode)  # the lowest number that is free: its own, unless that has been taken already
        way = "r" if name == "stdin" else "w"
        setattr(sys, name, open(fd, way, encoding="utf-8", errors="backslashreplace", closefd=fd != number))  # noqa: SIM115


if __name__ == "__main__":
    raise SystemExit(main())
