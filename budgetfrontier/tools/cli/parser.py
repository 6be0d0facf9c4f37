"""The argument parser of the command line: argparse's, with suggestions, and without options that count half."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from shutil import get_terminal_size
from typing import Any, NoReturn

from budgetfrontier.core.spelling import did_you_mean
from budgetfrontier.tools.cli.exits import USAGE
from budgetfrontier.tools.cli.sentences import note

_COMMON = "common options, explained by `budgetfrontier --help`"


class Parser(argparse.ArgumentParser):
    """A parser with suggestions in its errors, and examples in its help."""

    examples: Sequence[str] = ()
    """Arguments that may follow the name of the command, for its help."""
    may_follow = ""
    """The name of an argument that may be left out, and may follow options: argparse takes it as left out there."""
    sections: Mapping[str, Sequence[argparse.Action]] = {}
    """Sections of the help in the place of the list of commands: titles, and the entries of each."""
    _given: set[argparse.Action]
    """The options with one value that the arguments have had so far."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[argparse.Namespace, list[str]]:  # type: ignore[override]
        """Parse arguments; the value of --cluster stands for JOB, the first one."""
        self._given = set()
        if "--cluster" in self._option_string_actions:
            args = self._cluster_first(sys.argv[1:] if args is None else args)
        found, rest = super().parse_known_args(args, namespace)
        if self.may_follow and rest and not (value := getattr(found, self.may_follow)):
            at = int(rest[0] == "--")
            end = at + 1 if value is None else len(rest)
            if at < len(rest) and (at or not any(text.startswith("-") for text in rest[:end])):
                setattr(found, self.may_follow, rest[at] if value is None else rest[at:])
                rest = rest[end:]
        return found, rest

    def _cluster_first(self, args: Sequence[str]) -> list[str]:
        """Return arguments with the value of --cluster as the first, without the option."""
        given = list(args)
        end = given.index("--") if "--" in given else len(given)
        for place, text in enumerate(given[:end]):
            option, equals, url = text.partition("=")
            if option != "--cluster" or not (equals or place + 1 < len(given)):
                continue
            after = place + 1
            if not equals:
                url, after = given[after], after + 1
            if not url.startswith("kafka://"):
                self.error(f"argument --cluster: {url!r} is no crawl in partitions: give kafka://HOST:PORT/CRAWL")
            self._given.add(self._option_string_actions["--cluster"])
            return [url, *given[:place], *given[after:]]
        return given

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """Return the value of an argument; refuse that of an option whose value before it would not count."""
        if action.option_strings and isinstance(action, argparse._StoreAction):
            if action in self._given:
                raise argparse.ArgumentError(action, "given twice, but only one value of it would count")
            self._given.add(action)
        return super()._get_values(action, arg_strings)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        from budgetfrontier.settings import synonyms  # imported here because only mistakes need it

        choices = [str(choice) for choice in action.choices]
        known = synonyms.command(str(value))  # its letters may be more like those of another command
        is_there = known.partition(" ")[0] in (*choices, *self._option_string_actions)
        meant = f"; did you mean {known}?" if is_there else did_you_mean(str(value), choices)
        is_command = isinstance(action, argparse._SubParsersAction)
        all_ = f"; `{self.prog} --help` lists the commands" if is_command else f" (choose from {', '.join(choices)})"
        raise argparse.ArgumentError(action, f"invalid choice: {value!r}{meant or all_}")

    def format_usage(self) -> str:
        """Return the usage, in lines that fit a narrow terminal, too."""
        return _narrowed(super().format_usage())

    def format_help(self) -> str:
        """Return the help, in lines that fit a narrow terminal, too; common options are only named."""
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        groups = [(group.title, group._group_actions) for group in self._action_groups if group.title != "commands"]
        for title, actions in (*groups, *self.sections.items()):
            formatter.start_section(title)
            if title == _COMMON:
                formatter.add_text(", ".join(map(_usage_of, actions)))
            else:
                formatter.add_arguments(actions)
            formatter.end_section()
        formatter.add_text(self.epilog)
        lines = [f"  $ {self.prog} {example}".rstrip() for example in self.examples]
        return _narrowed(formatter.format_help()) + "".join(f"{line}\n" for line in ["\nexamples:", *lines] if lines)

    def error(self, message: str) -> NoReturn:
        """End with the usage and an error about the arguments, in lines that fit the terminal."""
        self.print_usage(sys.stderr)
        note(f"{self.prog}: error: {message}")
        raise SystemExit(USAGE)

    def refuse(self, unknown: Sequence[str]) -> NoReturn:
        """End with an error about arguments that are not known, and the options that are similar to them."""
        known = [option for option in self._option_string_actions if option.startswith("--")]
        options = (text.partition("=")[0] for text in unknown if text.startswith("--"))
        meant = "".join(did_you_mean(option, known) for option in options)
        self.error(f"unrecognized arguments: {' '.join(unknown)}{meant}")


def common_options(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Return the group of the options that several commands have, which the help of each only names."""
    there = (group for group in parser._action_groups if group.title == _COMMON)
    return next(there, None) or parser.add_argument_group(_COMMON)


def _usage_of(option: argparse.Action) -> str:
    """Return an option with its value, such as `--limit N`."""
    value = option.metavar or ("{" + ",".join(map(str, option.choices)) + "}" if option.choices else "")
    return f"{option.option_strings[-1]} {value}".rstrip()


def _narrowed(text: str) -> str:
    """Return the lines of a help with those wrapped for which argparse has indented too far to have room."""
    width = get_terminal_size().columns
    if all(len(line) <= width for line in text.split("\n")):
        return text
    from budgetfrontier.reports.layout import ListingLayout

    layout = ListingLayout(width)
    lines = (line if len(line) <= width else f"  {line.strip()}" for line in text.split("\n"))
    return "\n".join(part for line in lines for part in layout.wrapped(line, "    "))
