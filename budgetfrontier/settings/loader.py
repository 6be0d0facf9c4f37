"""Loading of settings from YAML files, and parsing of single values in the same syntax."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import filterfalse
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from budgetfrontier.errors import SettingsError
from budgetfrontier.settings import delay_conflicts
from budgetfrontier.settings.document import LARGEST, Document
from budgetfrontier.settings.matching import match_text, parse_match
from budgetfrontier.settings.overrides import Override, objections
from budgetfrontier.settings.problems import MOST_PROBLEMS, Problem, ValuePath
from budgetfrontier.settings.sheets import SettingsOfUris
from budgetfrontier.settings.unmatchable import never_matches
from budgetfrontier.settings.validation import Validator
from budgetfrontier.settings.values import plain, show

S = TypeVar("S", bound=msgspec.Struct)
_GZIP = b"\x1f\x8b"


class ListedAdjustment(NamedTuple):
    """An adjustment in a file: its pattern, its settings by dotted name, its reason, and its place, FILE:LINE."""

    match: str
    set: dict[str, Any]
    reason: str = ""
    at: str = ""


def load(
    path: Path, base: S, *, environment: Mapping[str, str] | None = None, only: Collection[str] = ()
) -> tuple[S, list[str]]:
    """Return the settings of a YAML file, and warnings about values that are valid but probably a mistake.

    With an `environment` (for a crawl), the variables that requests and the proxy refer to have to be set in it. With
    `only` the names of some sections, what is wrong in others is a warning, and is as by default. The SettingsError
    lists every problem as `file:line:column: message`, and has the warnings in the same format.
    """
    document = Document(_read(path))

    def place(at: ValuePath) -> str:
        return f"{path}:{document.position(Problem(at, ''))[0]}"

    settings, validator = base, Validator(folder=path.parent, environment=environment, place=place)
    if document.whole:
        settings = validator.settings(document.data, base)
        whole: object = settings
        if isinstance(whole, SettingsOfUris) and not (document.problems or validator.problems):
            validator.warnings += delay_conflicts.of_file(whole, document.data)

    def is_needed(one: Problem) -> bool:
        return not only or not one.path or one.path[0] in only

    doubts = [*filter(is_needed, validator.warnings), *filterfalse(is_needed, validator.problems)]
    warnings = _lines(path, document, doubts)
    if problems := [*document.problems, *filter(is_needed, validator.problems)]:
        raise SettingsError(_lines(path, document, problems), warnings=warnings)
    return settings, warnings


def load_adjustments(path: Path) -> tuple[list[ListedAdjustment], list[str]]:
    """Return the adjustments of a YAML file, perhaps a gzip, and warnings: a list of {match, set, reason}.

    Files and policies that they name are as in `load`. The SettingsError lists every problem as `load` does.
    """
    raw = _read(path)
    document = Document(_unpacked(path, raw) if raw.startswith(_GZIP) else raw)
    validator = Validator(folder=path.parent)
    found: list[ListedAdjustment] = []
    if document.whole:
        if isinstance(document.data, list) and document.data:
            found = [_adjustment(one, (index,), validator) for index, one in enumerate(document.data)]
        else:
            expected = "a list of adjustments, each {match: ..., set: {...}}, perhaps with a reason"
            got = "an empty one" if document.data == [] else show(document.data)
            validator.problems.append(Problem((), f"expected {expected}, got {got}"))
    warnings = _lines(path, document, validator.warnings)
    if problems := document.problems + validator.problems:
        raise SettingsError(_lines(path, document, problems), warnings=warnings)
    at = [f"{path}:{document.position(Problem((index,), ''))[0]}" for index in range(len(found))]
    return [one._replace(at=place) for one, place in zip(found, at, strict=True)], warnings


def _adjustment(value: Any, path: ValuePath, validator: Validator) -> ListedAdjustment:
    """Return an adjustment of a list; add its problems and warnings to those of the validator."""
    problems = validator.problems
    if not isinstance(value, Mapping) or not {"match", "set"} <= value.keys() <= {"match", "set", "reason"}:
        expected = "expected {match: ..., set: {...}}, perhaps with a reason"
        problems.append(Problem(path, f"{expected}, got {show(value)}"))
        return ListedAdjustment("", {})
    match, reason = value["match"], value.get("reason", "")
    try:
        match = match_text(match)
        parse_match(match)
    except SettingsError as error:
        problems += (Problem((*path, "match"), problem) for problem in error.problems)
        match = "*"
    if not isinstance(reason, str):
        problems.append(Problem((*path, "reason"), f"expected text, got {show(reason)}"))
    if value["set"] == {}:
        problems.append(Problem((*path, "set"), "it changes nothing: name at least one setting"))
    override = Override(match, validator.overriding(value["set"], (*path, "set")))
    problems += (Problem(path, objection) for objection in objections(override))
    if doubt := never_matches(match, own_keys=True):
        validator.warnings.append(Problem((*path, "match"), doubt))
    return ListedAdjustment(match, override.set, str(reason))


def _read(path: Path) -> bytes:
    """Return the content of a file, or as much of it as shows that it is too large. Raises SettingsError."""
    try:
        with path.open("rb") as file:  # it may be a pipe, or endless
            return file.read(LARGEST + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise SettingsError(f"{path}: cannot be read: {getattr(error, 'strerror', error)}") from None


def _unpacked(path: Path, raw: bytes) -> bytes:
    """Return the content of a gzip, or as much of it as shows that it is too large. Raises SettingsError."""
    import gzip  # rarely needed
    import io
    import zlib

    try:
        with gzip.GzipFile(fileobj=io.BytesIO(raw)) as file:
            return file.read(LARGEST + 1)
    except (EOFError, OSError, zlib.error) as error:
        raise SettingsError(f"{path}: this gzip is damaged: {error}") from None


def _lines(path: Path, document: Document, problems: list[Problem]) -> list[str]:
    """Return problems or warnings as lines `file:line:column: message`, in the order of the file."""
    lines = sorted((*document.position(problem), problem.message) for problem in problems)
    if len(lines) > MOST_PROBLEMS + 1:
        line, column, _ = lines[MOST_PROBLEMS]
        lines[MOST_PROBLEMS:] = [(line, column, "there are more problems from here on")]
    return [f"{path}:{line}:{column}: {message}" for line, column, message in lines]


def parse_value(text: str) -> Any:
    """Return a value in YAML syntax, such as `3000`, `3s` or `{additive: {...}}`. Raises SettingsError."""
    if (word := text.strip()) and plain(word) is None:
        return None
    document = Document(text.encode("utf-8", "surrogateescape"), if_empty="there is no value; [] is an empty list")
    if document.problems:
        raise SettingsError([f"{text!r}: {problem.message}" for problem in document.problems])
    return document.data
