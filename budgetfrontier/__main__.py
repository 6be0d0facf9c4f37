"""`python -m budgetfrontier`, and the program `budgetfrontier`."""

from __future__ import annotations


def main() -> int:
    """Run the command line. Ctrl-C while modules are still imported ends it without a traceback."""
    try:
        from budgetfrontier import cli

        return cli.main()
    except KeyboardInterrupt:
        return 130  # as `cli.exits` has it, which may not be there yet


if __name__ == "__main__":
    raise SystemExit(main())
