"""The commands that messages tell to give: each exists, with the options that are named."""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator
from pathlib import Path

import budgetfrontier
from budgetfrontier.tools.cli import build_parser

PACKAGE = Path(budgetfrontier.__file__).parent
COMMAND = re.compile(r"budgetfrontier ([a-z][a-z-]+)([^`]*)")


def texts() -> Iterator[tuple[str, str]]:
    """The texts in the code, those of docstrings too, each with its place; what is filled in is left out."""
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "budgetfrontier " not in text:
            continue
        module = path.relative_to(PACKAGE)
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.JoinedStr):
                parts = (part.value if isinstance(part, ast.Constant) else "X" for part in node.values)
                yield f"{module}:{node.lineno}", "".join(parts)  # type: ignore[arg-type]
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield f"{module}:{node.lineno}", node.value


def test_every_command_in_a_message_exists_with_its_options() -> None:
    (commands,) = (each for each in build_parser()._actions if isinstance(each, argparse._SubParsersAction))
    known = {name: set(parser._option_string_actions) for name, parser in commands.choices.items()}
    found = 0
    wrong = []
    for place, text in texts():
        for command in re.findall(r"`(budgetfrontier [^`]+)`", text):
            if (named := COMMAND.match(command)) is None:
                continue
            found += 1
            options = set(re.findall(r"(?<!\S)--?[a-z][a-z-]*", named[2]))
            if named[1] not in known or not options <= known[named[1]]:
                wrong.append(f"{place}: {command}")
    assert found > 30
    assert wrong == []
