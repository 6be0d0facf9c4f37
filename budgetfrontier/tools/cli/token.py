"""The command `token`: tokens with names and roles for the console and its API."""

from __future__ import annotations

import argparse
from pathlib import Path

from budgetfrontier.tools.cli import common
from budgetfrontier.tools.cli.common import Commands, add_command
from budgetfrontier.tools.cli.sentences import note

ROLES = ("read", "steer", "admin")
COLUMNS = ("name", "role")


def register(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "token",
        token,
        "make tokens with names and roles for the console and its API",
        more="add: make a token for NAME, and print it: the file has only its digest. remove: end it at once, also in "
        "a console that runs. list: the names and their roles. `console --tokens FILE` takes the file.",
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="the file of tokens; `add` makes it if there is none")
    parser.add_argument("action", choices=("add", "remove", "list"), help="what to do")
    parser.add_argument("name", nargs="?", metavar="NAME", help="the name, which the audit gets")
    parser.add_argument(
        "--role", choices=ROLES, default=None,
        help="with add: read looks at jobs, steer gives commands, admin also those that cannot be taken back, such as "
        "terminate (default: read)",
    )  # fmt: skip
    common.add_format(parser)
    parser.set_defaults(usage=parser.error)


def token(args: argparse.Namespace) -> None:
    """Add a token, remove one, or list them."""
    from budgetfrontier.tools.console import named_tokens

    if (args.name is None) is not (args.action == "list"):
        args.usage("list takes no NAME" if args.name else f"{args.action} needs a NAME")
    if args.role is not None and args.action != "add":
        args.usage("--role is for add")
    if args.action == "list":
        rows = ((one.name, one.role.name.lower()) for one in named_tokens.read(args.file))
        common.write_rows(args, rows, COLUMNS)
    elif args.action == "remove":
        named_tokens.remove(args.file, args.name)
        note(f"the token of {args.name} is no longer valid")
    else:
        role = named_tokens.Role[(args.role or "read").upper()]
        print(named_tokens.add(args.file, args.name, role))
        note("this is the only time that the token is shown")
