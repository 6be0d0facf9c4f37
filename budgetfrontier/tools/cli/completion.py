"""`completion`: the script with which a shell completes commands, options and queue keys, by argcomplete."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from budgetfrontier.errors import FrontierError, MissingExtra
from budgetfrontier.tools.cli.common import Commands, add_command

SHELLS = ("bash", "zsh", "fish")

_MOST_KEYS = 200
_HOW = {
    "bash": "in ~/.bashrc: source <(budgetfrontier completion bash)",
    "zsh": "in ~/.zshrc, after compinit: source <(budgetfrontier completion zsh)",
    "fish": "in ~/.config/fish/config.fish: budgetfrontier completion fish | source",
}


def register(commands: Commands) -> None:
    """Add the command of this group."""
    parser = add_command(
        commands,
        "completion",
        completion,
        "print the script that lets your shell complete commands, options and queue keys",
        more="To turn it on: " + "; ".join(_HOW.values()) + ". Needs the extra 'completion'.",
    )
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help=f"your shell: {', '.join(SHELLS)}")


def completion(args: argparse.Namespace) -> None:
    """Print the script for a shell."""
    try:
        from argcomplete.shell_integration import shellcode
    except ModuleNotFoundError as error:
        raise MissingExtra("completion") from error
    sys.stdout.write(shellcode(["budgetfrontier"], shell=args.shell).strip() + "\n")


def command_being_typed() -> str | None:
    """Return the command on the line that a shell wants to have completed, None if it is not complete yet."""
    words = os.environ.get("COMP_LINE", "")[: int(os.environ.get("COMP_POINT") or 1 << 20)].split(" ")
    return words[1] if len(words) > 2 else None


def complete(parser: argparse.ArgumentParser) -> None:
    """Answer the shell, and end this process. Returns only if argcomplete is missing."""
    try:
        import argcomplete
    except ModuleNotFoundError:
        return
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                _add_completers(command)
    argcomplete.autocomplete(parser, always_complete_options=False)


def _add_completers(command: argparse.ArgumentParser) -> None:
    from argcomplete.completers import DirectoriesCompleter

    for action in command._actions:
        completer: Any = None
        if action.dest == "job":
            completer = DirectoriesCompleter()
        elif action.dest in ("key", "target", "queue"):
            completer = _keys
        if completer:
            action.completer = completer  # type: ignore[attr-defined]  # argcomplete looks for it there


def _keys(prefix: str, parsed_args: argparse.Namespace, **_: object) -> list[str]:
    """Return queue keys of the job that begin with `prefix`; none if there is no such job, or it cannot be read."""
    from budgetfrontier.storage.reader import Reader
    from budgetfrontier.tools.cli.common import frontier_path

    try:
        with Reader(frontier_path(Path(parsed_args.job))) as reader:
            return reader.names(prefix, _MOST_KEYS)
    except (FrontierError, OSError):
        return []
