"""`python -m budgetfrontier`, and the program `budgetfrontier`."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line. Ctrl-C while modules are still imported ends it without a traceback."""
    try:
        from budgetfrontier.tools.cli.closed_files import fill_in

        fill_in()
        if sys.argv[1:2] in (["crawl"], ["demo"]):  # they finish what is in flight, and say so by their exit code
            from budgetfrontier.crawler.interrupts import install_for_process

            install_for_process()
        from budgetfrontier.tools import cli

        return cli.main()
    except KeyboardInterrupt:
        return 130  # as `tools.cli.exits` has it, which may not be there yet


if __name__ == "__main__":
    raise SystemExit(main())
