"""The command line: `budgetfrontier COMMAND`. Data goes to stdout, messages to stderr.

Exit codes: 0 ok, 1 error, 2 usage, 3 disk full, 4 invalid configuration, 5 frontier locked, 6 damage found, 7
paused by a scope that has changed; 130 after Ctrl-C and 141 after a broken pipe on stdout, as shells report these for
any program. A crawl that was stopped by Ctrl-C exits with 0, one that a second Ctrl-C stopped at once with 1, and so
does an interrupted `demo`.
"""

from __future__ import annotations

import argparse
import io
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout, suppress
from importlib import import_module

from budgetfrontier import __version__
from budgetfrontier.engine import native
from budgetfrontier.reports.format import without_password
from budgetfrontier.tools.cli.command_list import COMMANDS, GROUPS, MODULES
from budgetfrontier.tools.cli.common import ClusterUrl, several_commands
from budgetfrontier.tools.cli.exits import DISK_FULL, EXIT_CODES, INTERRUPTED, PIPE_CLOSED, USAGE, exit_code
from budgetfrontier.tools.cli.parser import Parser
from budgetfrontier.tools.cli.sentences import note

__all__ = ["EXIT_CODES", "build_parser", "main"]

_LONGEST_LINE = 2000  # characters of a command line that the audit keeps


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; errors become one message on stderr, never a traceback."""
    try:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")  # the terminal's encoding may lack characters
        argv = sys.argv[1:] if argv is None else argv
        if "_ARGCOMPLETE" in os.environ:
            _complete()
        args = _parsed(argv)
        if not isinstance(args, int):
            line = without_password(shlex.join(("budgetfrontier", *argv)))[:_LONGEST_LINE]
            args.line = line.encode("utf-8", "backslashreplace").decode()  # names of files need not be text
            if _writes_data(args) and isinstance(sys.stdout, io.TextIOWrapper):
                sys.stdout.reconfigure(encoding="utf-8")  # whatever the terminal's is
        code = args if isinstance(args, int) else _run_of(args)(args)
        sys.stdout.flush()
        return int(code or 0)
    except SystemExit as stop:  # a command has reported arguments that exclude each other
        return stop.code if isinstance(stop.code, int) else USAGE
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Python flushes stdout once more at exit: redirect it, so that this does not raise again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    except Exception as error:
        if isinstance(error, OSError) and not _takes_output() and error.filename is None:
            error.filename = "standard output"
        code = exit_code(error)
        if code is None:
            raise
        note(f"budgetfrontier: {_message(error)}")
        return code


def _parsed(argv: Sequence[str]) -> argparse.Namespace | int:
    """Return the parsed arguments, or an exit code if argparse has printed the help, the version or an error."""
    with redirect_stdout(io.StringIO()) as printed:  # argparse ignores errors when printing
        try:
            parser = build_parser(argv[0] if argv else None)
            args, unknown = parser.parse_known_args(argv)
            if unknown:
                getattr(args, "parser", parser).refuse(unknown)
            if args.command is None:
                parser.error("give a COMMAND; `budgetfrontier --help` lists them")
            return args
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else USAGE
    from budgetfrontier.storage.whole_files import naming_file

    with naming_file("standard output"):
        sys.stdout.write(printed.getvalue())
        sys.stdout.flush()
    return code


def _run_of(args: argparse.Namespace) -> Callable[[argparse.Namespace], int | None]:
    """Return the function that runs a command. Exits if it is not for what is given as JOB."""
    if isinstance(getattr(args, "job", None), ClusterUrl):
        from budgetfrontier.tools.cli import clusters

        clusters.check(args)
    else:
        for name in getattr(args, "cluster_only", ()):
            if getattr(args, name) is not None:
                args.parser.error(f"--{name.replace('_', '-')} is for a crawl in partitions: give it with --cluster")
    run: Callable[[argparse.Namespace], int | None] = args.run
    return run


def _writes_data(args: argparse.Namespace) -> bool:
    """Return whether a command writes a format for programs, such as JSON, or a configuration."""
    return getattr(args, "format", "text") != "text" or getattr(args, "print", False)


def _complete() -> None:
    """Answer a shell that asks how to complete a line, and end this process."""
    from budgetfrontier.tools.cli.completion import command_being_typed, complete

    complete(build_parser(command_being_typed()))


def _takes_output() -> bool:
    """Flush stdout; return False, and redirect it to nowhere, if it cannot be written."""
    try:
        sys.stdout.flush()
        with suppress(io.UnsupportedOperation):  # it is no file
            os.write(sys.stdout.fileno(), b"")  # a write that failed may have left nothing to flush
    except OSError:
        # Python flushes stdout once more at exit, which must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
    return True


def build_parser(command: str | None = None) -> Parser:
    """Return the parser of all commands; the reference documentation is generated from it.

    With the name of a command, only that command's module is imported and added, which halves the start-up time. Any
    other text, such as an unknown command, adds all of them.
    """
    parser = Parser(
        prog="budgetfrontier",
        description="Crawl within budgets; look at a crawl and steer it, whether it is running or stopped. "
        "`budgetfrontier COMMAND --help` explains a command and has examples.",
        epilog="exit codes: " + "; ".join(f"{code} {meaning}" for code, meaning in EXIT_CODES.items()) + ".",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__} ({native.described()})")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    for module in (COMMANDS[command].module,) if command in COMMANDS else MODULES:
        import_module(f"budgetfrontier.tools.cli.{module}").register(commands)
    for name, added in commands.choices.items():
        added.examples = COMMANDS[name].examples
    listed = {action.dest: action for action in commands._get_subactions()}
    parser.sections = {
        **{title: [listed[name] for name in group if name in listed] for title, group in GROUPS.items()},
        "options of several commands": several_commands(),
    }
    return parser


def _message(error: Exception) -> str:
    from budgetfrontier.errors import in_words

    if isinstance(error, OSError) and error.strerror:
        text = in_words(error)
        return f"{text}; free some space and run the same command again" if exit_code(error) == DISK_FULL else text
    return str(error)
