"""Loading of settings from YAML files, and parsing of single values in the same syntax."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from budgetfrontier.errors import SettingsError
from budgetfrontier.settings import delay_conflicts
from budgetfrontier.settings.document import LARGEST, Document
from budgetfrontier.settings.problems import MOST_PROBLEMS, Problem, ValuePath
from budgetfrontier.settings.sheets import SettingsOfUris
from budgetfrontier.settings.validation import Validator

S = TypeVar("S", bound=msgspec.Struct)


def load(path: Path, base: S, *, environment: Mapping[str, str] | None = None) -> tuple[S, list[str]]:
    """Return the settings of a YAML file, and warnings about values that are valid but probably a mistake.

    With an `environment` (for a crawl), the variables that requests and the proxy refer to have to be set in it. The
    SettingsError lists every problem as `file:line:column: message`, and has the warnings in the same format.
    """
    try:
        with path.open("rb") as file:  # it may be a pipe, or endless
            document = Document(file.read(LARGEST + 1))
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise SettingsError(f"{path}: cannot be read: {getattr(error, 'strerror', error)}") from None

    def place(at: ValuePath) -> str:
        return f"{path}:{document.position(Problem(at, ''))[0]}"

    settings, validator = base, Validator(folder=path.parent, environment=environment, place=place)
    if document.whole:
        settings = validator.settings(document.data, base)
        whole: object = settings
        if isinstance(whole, SettingsOfUris) and not (document.problems or validator.problems):
            validator.warnings += delay_conflicts.of_file(whole, document.data)
    warnings = _lines(path, document, validator.warnings)
    if problems := document.problems + validator.problems:
        raise SettingsError(_lines(path, document, problems), warnings=warnings)
    return settings, warnings


def _lines(path: Path, document: Document, problems: list[Problem]) -> list[str]:
    """Return problems or warnings as lines `file:line:column: message`, in the order of the file."""
    lines = sorted((*document.position(problem), problem.message) for problem in problems)
    if len(lines) > MOST_PROBLEMS + 1:
        line, column, _ = lines[MOST_PROBLEMS]
        lines[MOST_PROBLEMS:] = [(line, column, "there are more problems from here on")]
    return [f"{path}:{line}:{column}: {message}" for line, column, message in lines]


def parse_value(text: str) -> Any:
    """Return a value in YAML syntax, such as `3000`, `3s` or `{additive: {...}}`. Raises SettingsError."""
    document = Document(text.encode("utf-8", "surrogateescape"))
    if document.problems:
        raise SettingsError([f"{text!r}: {problem.message}" for problem in document.problems])
    return document.data
