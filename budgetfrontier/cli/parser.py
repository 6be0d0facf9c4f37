"""The argument parser of the command line: argparse's, with suggestions for mistyped commands, options and values."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn


class Parser(argparse.ArgumentParser):
    """A parser whose errors say what was probably meant."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        choices = [str(choice) for choice in action.choices]
        meant = did_you_mean(str(value), choices)
        hint = meant or f" (choose from {', '.join(choices)})"
        raise argparse.ArgumentError(action, f"invalid choice: {value!r}{hint}")

    def refuse(self, unknown: Sequence[str]) -> NoReturn:
        """End with an error about arguments that are not known, and the options that are similar to them."""
        known = [option for option in self._option_string_actions if option.startswith("--")]
        options = (text.partition("=")[0] for text in unknown if text.startswith("--"))
        meant = "".join(did_you_mean(option, known) for option in options)
        self.error(f"unrecognized arguments: {' '.join(unknown)}{meant}")


def did_you_mean(text: str, choices: Iterable[str]) -> str:
    """Return "; did you mean X?" for the most similar of the choices, "" if none is similar."""
    from difflib import get_close_matches

    lower = {choice.lower(): choice for choice in choices}
    near = get_close_matches(text.lower(), lower, n=1, cutoff=0.6)
    return f"; did you mean {lower[near[0]]}?" if near else ""
