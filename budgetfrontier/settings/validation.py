"""Validation of plain data as settings: all problems are collected, each with the path of its value."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec

from budgetfrontier.core import uris
from budgetfrontier.core.spelling import LONGEST, did_you_mean
from budgetfrontier.core.vocabulary import AMOUNTS
from budgetfrontier.errors import InvalidUrl, SettingsError
from budgetfrontier.settings import (
    alert_sinks,
    combinations,
    grouping,
    plugins,
    policy_factory,
    schema,
    url_lists,
    windows,
)
from budgetfrontier.settings.checks import is_address, objection_to_file, policy_name, sheet_objection
from budgetfrontier.settings.credentials import proxy_problems, request_problems
from budgetfrontier.settings.field import HOOK, Field, fields
from budgetfrontier.settings.matching import KINDS, match_text, parse_match, sheet_name_objection
from budgetfrontier.settings.names import (
    SHEET,
    SHEET_ORDER,
    WITHOUT_SHEET,
    field_name,
    not_per_uri,
    per_uri,
    snake,
    unknown,
)
from budgetfrontier.settings.problems import MOST_PROBLEMS, Problem, TooManyProblems, ValuePath
from budgetfrontier.settings.schema import (
    AlertSink,
    Association,
    GroupSettings,
    Override,
    RequestSettings,
    ScopeRule,
    Seed,
)
from budgetfrontier.settings.scope_rules import FORMS, check_rule
from budgetfrontier.settings.unmatchable import matches_no_host, never_matches
from budgetfrontier.settings.values import FLAG, SIZE, TEXT, Type, brief, integer, listed, show

S = TypeVar("S", bound=msgspec.Struct)

_DEFAULTS = schema.FrontierSettings()
_NAMES = Field("", listed(TEXT, many=schema.SHEETS))
_ORDER = Field("", integer())
_PATTERN = Field("", TEXT)
_QUOTAS = {name: Field("", SIZE if name.endswith("bytes") else schema.COUNT) for name in AMOUNTS}


def read_settings(data: Any, base: S) -> S:
    """Return `base` with the changes in `data`. Raises SettingsError with every problem."""
    validator = Validator()
    settings = validator.settings(data, base)
    validator.check()
    return settings


def profile(name: str, base: S) -> S:
    """Return `base` with the changes of a profile, `config/NAME.yaml`. Raises SettingsError if there is none."""
    from budgetfrontier.settings.profiles import profile_data  # loads YAML

    return read_settings(profile_data(name), base)


class Validator:
    """A reader of data that collects all problems; invalid values are replaced by their defaults.

    With a `folder` (for a YAML file), files are relative to it and have to exist, seeds have to be URLs, and policies,
    hooks and sinks are imported. With an `environment` (for a crawl), the variables that requests and the proxy refer
    to have to be set in it, to values that can be sent. `place` returns where the value at a path is written, as
    FILE:LINE, which overrides keep. `warnings` are about valid values that are probably mistakes.
    """

    def __init__(
        self,
        *,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
        place: Callable[[ValuePath], str] | None = None,
    ) -> None:
        self.folder, self.environment, self._place = folder, environment, place
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []
        self._matches: list[tuple[ValuePath, str]] = []
        self._sheet_names: list[tuple[ValuePath, str]] = []
        self._sheets_unknown = False
        self._associated: set[tuple[str, str]] = set()
        self._seeds_with_settings: list[tuple[ValuePath, str]] = []
        self._root: type[msgspec.Struct] = msgspec.Struct
        self._readers: dict[str, Callable[[Any, ValuePath], Any]] = {
            "addresses": self._addresses,
            "alert_sinks": self._alert_sinks,
            "associations": self._each(self._association),
            "file": self._file,
            "hooks": self._each(self._hook),
            "group_match": self._match,
            "groups": self._groups,
            "match": self._match,
            "ordered": self._each(self._ordered_rule),
            "overrides": self._each(self._override),
            "quota": self._quota,
            "optional_quota": lambda value, path: None if value is None else self._quota(value, path),
            "requests": self._each(self._request),
            "rules": self._each(self._rule),
            "seeds": self._each(self._seed),
            "sheets": self._sheets,
            "texts": self._texts,
            "windows": self._each(self._window),
        }

    def check(self) -> None:
        """Raise SettingsError if there were problems."""
        if self.problems:
            raise SettingsError([problem.message for problem in self.problems])

    def settings(self, data: Any, base: S) -> S:
        """Read all settings, on top of the profile that `data` names, if any."""
        self._root = type(base)
        try:
            return self._settings(data, base)
        except TooManyProblems:
            return base

    def _settings(self, data: Any, base: S) -> S:
        if isinstance(data, Mapping) and "profile" in data:
            data = dict(data)
            name = data.pop("profile")
            try:
                base = profile(TEXT.read(name), base)
            except SettingsError as error:
                self._sheets_unknown = True
                self._add(("profile",), *error.problems)
            except ValueError:
                self._add(("profile",), f"expected the name of a profile, got {show(name)}")
        settings = self.section(base, data, ())
        whole, inherited = (cast("combinations.WholeSettings", one) for one in (settings, base))
        if not self.problems:
            self._add_all(combinations.group_problems(whole))
            for path, doubt in combinations.doubts(whole):
                self._warn(path, doubt)
        sheets = {**inherited.sheets, **whole.sheets}
        self._check_sheet_names(sheets)
        self._warn_of_matches(whole.frontier)
        if self._seeds_with_settings:
            self._add_all(combinations.seed_problems(whole.frontier, self._seeds_with_settings))
        if whole.cluster.kafka is not None:
            self._add_all(combinations.partition_problems(whole))
        return msgspec.structs.replace(settings, sheets=sheets)

    def _check_sheet_names(self, sheets: Mapping[str, Any]) -> None:
        """Add a problem for each name of a sheet that does not exist, unless the sheets were not understood."""
        if not self._sheets_unknown:
            for path, name in self._sheet_names:
                if name not in sheets:
                    self._add(path, sheet_objection(name, sheets))

    def _warn_of_matches(self, frontier: schema.FrontierSettings) -> None:
        """Add warnings of patterns that match nothing, once it is known which keys the queues of the settings have."""
        own_keys = bool(self._matches) and not plugins.is_builtin("assignment", frontier.queue_assignment_policy)
        for path, text in self._matches:
            self._warn(path, never_matches(text, own_keys=own_keys))

    def section(self, base: S, data: Any, path: ValuePath) -> S:
        """Return `base` with the fields in the mapping `data` changed."""
        if data is None:
            return base
        if not isinstance(data, Mapping):
            self._add(path, f"expected a mapping of settings, got {show(data)}")
            return base
        known, before = fields(type(base)), len(self.problems)
        changes: dict[str, Any] = {}
        for key, value in data.items():
            here = (*path, str(key))
            name = field_name(key, known)
            field = known.get(name)
            if field is None:
                self._add_at_key(here, unknown(name, known, path, self._root, value))
            elif name in changes:
                self._add_at_key(here, f"this sets {name} a second time")
            elif isinstance(field, Field):
                changes[name] = self.value(field, value, here, getattr(base, name))
                if self.environment is not None and (*path, name) == ("fetch", "proxy"):
                    self._problem(*proxy_problems(changes[name], here, self.environment))
            else:
                changes[name] = self.section(getattr(base, name), value, here)
        changed = msgspec.structs.replace(base, **changes)
        if len(self.problems) == before and (conflict := combinations.conflict(changed)):  # else it may be of a default
            self._add(path, conflict)
        return changed

    def value(self, field: Field, value: Any, path: ValuePath, default: Any) -> Any:
        """Return the value of one setting, or `default` if it is invalid."""
        if not isinstance(field.type, Type):
            if field.type.startswith("policy:"):
                return self._policy(field.type.removeprefix("policy:"), value, path)
            return self._readers[field.type](value, path)
        try:
            read = field.type.read(value)
        except ValueError as error:
            hint = "; yes, no, on and off are texts here" if value in ("yes", "no", "on", "off") else ""
            self._add(path, f"expected {field.type.text}, got {error}{hint if field.type is FLAG else ''}")
            return default
        self._warn(path, field.type.doubt(value, read, default))
        return read

    def _warn(self, path: ValuePath, doubt: str | None) -> None:
        if doubt is not None and len(self.warnings) < MOST_PROBLEMS:
            self.warnings.append(Problem(path, doubt))

    def overriding(self, data: Any, path: ValuePath = ()) -> dict[str, Any]:
        """Return the settings of an override by dotted name; `data` may nest, {"retry": {"delay": 5}}, or not.

        An adjustment may have the name of a sheet instead, and its order: `sheet`, `sheet_order`, or `without_sheet`.
        """
        if isinstance(data, Mapping) and not data.keys().isdisjoint((SHEET, WITHOUT_SHEET, SHEET_ORDER)):
            return self._sheet_change(data, path)
        try:
            return self._overriding(data, path)
        except TooManyProblems:
            return {}

    def _overriding(self, data: Any, path: ValuePath, prefix: str = "") -> dict[str, Any]:
        found: dict[str, Any] = {}
        if not isinstance(data, Mapping):
            self._add(path, f"expected a mapping of settings, got {show(data)}")
            return found
        known = per_uri()
        for key, value in data.items():
            here = (*path, str(key))
            name = field_name(prefix + str(key), known)
            field = known.get(name)
            if field is None and any(n.startswith(name + ".") for n in known):
                added = self._overriding(value, here, name + ".")
            elif field is None:
                self._add_at_key(here, not_per_uri(name))
                continue
            else:
                added = {name: self.value(field, value, here, attrgetter(name)(_DEFAULTS))}
            for twice in found.keys() & added.keys():
                self._add_at_key(here, f"this sets {twice} a second time")
            found |= added
        least, most = found.get("politeness.min_delay"), found.get("politeness.max_delay")
        if not prefix and least is not None and most is not None and least > most:
            self._add(path, combinations.longer(least, most))
        return found

    def _sheet_change(self, data: Mapping[str, Any], path: ValuePath) -> dict[str, Any]:
        wanted = {SHEET, SHEET_ORDER} if SHEET in data else {WITHOUT_SHEET}
        if not data.keys() <= wanted:
            alone = f"{SHEET}, perhaps with {SHEET_ORDER}, or {WITHOUT_SHEET}"
            self._add(path, f"{alone} goes alone, without other settings")
            return {}
        name = data.get(SHEET, data.get(WITHOUT_SHEET))
        if objection := sheet_name_objection(name):
            self._add(path, objection)
        if (order := data.get(SHEET_ORDER, 0)) is not None and type(order) is not int:
            self._add((*path, SHEET_ORDER), f"expected a whole number, got {show(order)}")
        return {key: value for key, value in data.items() if key != SHEET_ORDER or value}

    def _add(self, path: ValuePath, *texts: str) -> None:
        self._problem(*(Problem(path, text) for text in texts))

    def _add_all(self, found: Iterable[tuple[ValuePath, str]]) -> None:
        for path, text in found:
            self._add(path, text)

    def _add_at_key(self, path: ValuePath, text: str) -> None:
        self._problem(Problem(path, text, at_key=True))

    def _problem(self, *problems: Problem) -> None:
        self.problems += problems
        if len(self.problems) > MOST_PROBLEMS:
            stopped = self.problems[MOST_PROBLEMS]
            self.problems[MOST_PROBLEMS:] = [Problem(stopped.path, "there are more problems from here on", bare=True)]
            raise TooManyProblems

    def _each(self, read: Callable[[Any, ValuePath], Any]) -> Callable[[Any, ValuePath], tuple[Any, ...]]:
        """Return a reader of lists; a single value is read as a list of one."""

        def read_all(value: Any, path: ValuePath) -> tuple[Any, ...]:
            if value is None:
                return ()
            if not isinstance(value, list | tuple):
                before = len(self.problems)
                found = tuple(item for item in [read(value, path)] if item is not None)
                wrong = [problem for problem in self.problems[before:] if problem.at_key and problem.path[:-1] == path]
                if isinstance(value, Mapping) and 0 < len(value) == len(wrong):  # none of its keys is one of an item
                    self._add(
                        path, "this is read as one item of a list, not as items with names: write a `-` before each"
                    )
                return found
            items = [read(item, (*path, index)) for index, item in enumerate(value)]
            return tuple(item for item in items if item is not None)

        return read_all

    def _seed(self, value: Any, path: ValuePath) -> Seed | None:
        if isinstance(value, Mapping):
            seed = self.section(Seed(), value, path)
            self._sheet_names += (((*path, "sheet"), name) for name in self._distinct(seed.sheet, (*path, "sheet")))
            if seed.url is not None and seed.queue is None and (seed.budget is not None or seed.sheet):
                self._seeds_with_settings.append((path, seed.url))
            path = (*path, "url")
        else:
            try:
                seed = Seed(url=TEXT.read(value))
            except ValueError as error:
                self._add(
                    path, f"expected a URL, {{url, priority, label, queue, budget, sheet}} or {{file}}, got {error}"
                )
                return None
        if self.folder is not None and seed.url is not None and (objection := url_lists.objection(seed.url)):
            self._add(path, objection)
        return seed

    def _file(self, value: Any, path: ValuePath, *, gzip: bool = False) -> str | None:
        if value is None:
            return None
        try:
            file = Path(TEXT.read(value))
        except ValueError as error:
            self._add(path, f"expected the path of a file, got {error}")
            return None
        if self.folder is None:
            return str(file)
        file = (self.folder / file).absolute()
        if objection := objection_to_file(file, gzip=gzip):
            self._add(path, objection)
        return str(file)

    def _hook(self, value: Any, path: ValuePath) -> str | None:
        if not isinstance(value, str) or not re.fullmatch(HOOK, value):
            self._add(path, f"expected module:name, got {show(value)}")
            return None
        if self.folder is not None:
            try:
                plugins.load(value)
            except SettingsError as error:
                self._add(path, *error.problems)
        return value

    def _override(self, value: Any, path: ValuePath) -> Override | None:
        if not isinstance(value, Mapping) or {snake(key) for key in value} != {"match", "set"}:
            got = (
                f"the keys {brief(', '.join(map(str, value)), 200)}"
                if isinstance(value, Mapping) and value
                else show(value)
            )
            self._add(path, f"expected {{match: ..., set: {{...}}}}, got {got}")
            return None
        match = self._match(value["match"], (*path, "match"), groups=True)
        at = self._place(path) if self._place is not None else ""
        override = Override(match=match, set=self._overriding(value["set"], (*path, "set")), at=at)
        if found := grouping.misplaced(override):
            self._add(path, found)
        return override

    def _sheets(self, value: Any, path: ValuePath) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        if value is None:
            return found
        if not isinstance(value, Mapping):
            self._sheets_unknown = True
            self._add(path, f"expected a mapping of names to settings, got {show(value)}")
            return found
        for name, settings in value.items():
            here = (*path, str(name))
            if objection := sheet_name_objection(name):
                self._sheets_unknown = True
                self._add_at_key(here, objection)
            else:
                found[name] = self._overriding({} if settings is None else settings, here)
                if of_groups := grouping.misplaced(Override(f"sheet:{name}", found[name])):
                    self._add(here, of_groups)
        return found

    def _association(self, value: Any, path: ValuePath) -> Association | None:
        if not isinstance(value, Mapping):
            self._add(path, f"expected {{sheet: NAME, surt: PREFIX}}, or another pattern, got {show(value)}")
            return None
        sheets, matches, kinds, order = list[str](), list[str](), list[str](), 0
        before = len(self.problems)
        for key, given in value.items():
            here, name = (*path, str(key)), snake(str(key))
            if name in ("sheet", "sheets"):
                if sheets:
                    self._add_at_key(here, "this names sheets a second time")
                sheets += self._distinct(self.value(_NAMES, given, here, ()), here)
                self._sheet_names += ((here, sheet) for sheet in sheets)
            elif name == "order":
                order = self.value(_ORDER, given, here, 0)
            elif name == "match" or name in KINDS:
                kinds.append(name)
                matches += self._distinct(self._patterns(name, given, here), here)
            else:
                self._add_at_key(here, f"expected sheet, order, match or one of {', '.join(KINDS)}, got {show(key)}")
        if len(kinds) > 1:
            self._add(path, f"{' and '.join(kinds)} in one association; write one for each, of which any may match")
        if len(self.problems) > before:
            return None
        if not sheets or not matches:
            self._add(path, "an association names a sheet and a pattern: {sheet: NAME, domain: example.org}")
            return None
        for pair in ((sheet, match) for sheet in sheets for match in matches):
            if pair in self._associated:
                self._add(path, f'the sheet "{brief(pair[0])}" is associated with {brief(pair[1])} before this')
            self._associated.add(pair)
        return Association(sheets=tuple(sheets), match=tuple(matches), order=order)

    def _patterns(self, kind: str, given: Any, path: ValuePath) -> Iterator[str]:
        """Yield the patterns of an association: those of one kind, or whole ones, under `match`."""
        for one in given if isinstance(given, list | tuple) else [given]:
            if kind == "match":
                yield self._match(one, path)
            elif (text := self.value(_PATTERN, one, path, "")) != "":
                yield self._match(f"{kind}:{text}", path)

    def _distinct(self, texts: Iterable[str], path: ValuePath) -> list[str]:
        """Return the texts of a list; one that is in it twice is a problem."""
        found: dict[str, None] = {}
        for text in texts:
            if text in found:
                self._add(path, f"{show(text)} is in this list twice")
            found[text] = None
        return list(found)

    def _rule(self, value: Any, path: ValuePath) -> str | None:
        try:
            value = TEXT.read(value)
            check_rule(value)
            self._matches.append((path, value))
        except ValueError as error:
            self._add(path, f"expected a scope rule ({FORMS}), got {error}")
            return None
        except SettingsError as error:
            self._add(path, *error.problems)
            return None
        kind, _, argument = value.partition(":")
        return f"{kind}:{self._file(argument.strip(), path)}" if kind == "surt-file" else value

    def _ordered_rule(self, value: Any, path: ValuePath) -> ScopeRule | None:
        if isinstance(value, Mapping) and set(value) == {"accept", "rule"} and isinstance(value["accept"], bool):
            value = {"accept" if value["accept"] else "reject": value["rule"]}  # the plain form of a ScopeRule
        if not isinstance(value, Mapping) or len(value) != 1 or next(iter(value)) not in ("accept", "reject"):
            self._add(path, f"expected {{accept: rule}} or {{reject: rule}}, got {show(value)}")
            return None
        kind, rule = next(iter(value.items()))
        read = self._rule(rule, (*path, kind))
        return None if read is None else ScopeRule(kind == "accept", read)

    def _match(self, value: Any, path: ValuePath, *, groups: bool = False) -> str:
        try:
            value = match_text(value)
            _pattern(value, groups=groups)
            self._matches.append((path, value))
        except SettingsError as error:
            self._add(path, *error.problems)
        return str(value)

    def _request(self, value: Any, path: ValuePath) -> RequestSettings | None:
        if not isinstance(value, Mapping):
            self._add(path, f"expected {{match, headers, cookies, auth}}, got {show(value)}")
            return None
        read = self.section(RequestSettings(), value, path)
        if self.environment is not None:
            self._problem(*request_problems(read, path, self.environment))
        return read

    def _alert_sinks(self, value: Any, path: ValuePath) -> tuple[AlertSink, ...]:
        names: set[str] = set()

        def read(value: Any, path: ValuePath) -> AlertSink | None:
            if not isinstance(value, Mapping):
                self._add(path, f"expected {{webhook}}, {{command}} or {{mail, sender, server}}, got {show(value)}")
                return None
            before = len(self.problems)
            sink = self.section(AlertSink(), value, path)
            if len(self.problems) == before:
                self._problem(*alert_sinks.sink_problems(sink, path, self.environment))
            if len(self.problems) > before:
                return None
            if (name := alert_sinks.name_of(sink)) in names:
                self._add(path, f'a sink before this one is called "{brief(name)}" too: give each a name')
            names.add(name)
            return sink

        return self._each(read)(value, path)

    def _groups(self, value: Any, path: ValuePath) -> tuple[GroupSettings, ...]:
        names: set[str] = set()

        def read(value: Any, path: ValuePath) -> GroupSettings | None:
            if not isinstance(value, Mapping):
                self._add(path, f"expected {{name, match or by, ...}}, got {show(value)}")
                return None
            before = len(self.problems)
            group = self.section(GroupSettings(), value, path)
            if len(self.problems) > before:
                return None
            if group.name in names:
                self._add((*path, "name"), f'a group before this one is called "{group.name}" too')
            names.add(group.name)
            if group.by != "surt" and "segments" in map(snake, value):
                self._add((*path, "segments"), "segments are of groups by: surt; leave it out, or write by: surt")
            return group

        return self._each(read)(value, path)

    def _mapping(self, value: Any, path: ValuePath, expected: str) -> Mapping[Any, Any]:
        """Return a mapping as it is, and {} for any other value: a problem unless it is None."""
        if isinstance(value, Mapping):
            return value
        if value is not None:
            self._add(path, f"expected {expected}, got {show(value)}")
        return {}

    def _texts(self, value: Any, path: ValuePath) -> dict[str, str]:
        texts: dict[str, str] = {}
        for name, text in self._mapping(value, path, "a mapping of names to texts").items():
            try:
                texts[TEXT.read(name)] = TEXT.read(text)
            except ValueError as error:
                self._add((*path, str(name)), f"expected a text, got {error}")
        return texts

    def _quota(self, value: Any, path: ValuePath) -> dict[str, int]:
        found: dict[str, int] = {}
        for key, limit in self._mapping(value, path, "a mapping such as {successes: 1000, bytes: 1GB}").items():
            name, here = snake(key), (*path, str(key))
            if name not in AMOUNTS:
                hint = did_you_mean(name, AMOUNTS, quote='"') or f"; known here: {', '.join(AMOUNTS)}"
                self._add_at_key(here, f'unknown amount "{brief(name)}"{hint}')
                continue
            if name in found:
                self._add_at_key(here, f"this sets {name} a second time")
            found[name] = self.value(_QUOTAS[name], limit, here, 0)
        return found

    def _window(self, value: Any, path: ValuePath) -> str | None:
        try:
            return windows.read(value)
        except ValueError as error:
            self._add(path, str(error))
            return None

    def _addresses(self, value: Any, path: ValuePath) -> dict[str, str]:
        found: dict[str, str] = {}
        for pattern, address in self._mapping(value, path, 'a mapping of host globs to "ip:port"').items():
            if not is_address(address):
                self._add((*path, str(pattern)), f'expected "ip:port", such as "127.0.0.1:8080", got {show(address)}')
            try:
                found[uris.glob_form(str(pattern))] = str(address)
                self._warn((*path, str(pattern)), matches_no_host(str(pattern)))
            except InvalidUrl as error:
                self._add((*path, str(pattern)), f"expected a glob on hosts, such as *.test: {error}")
        return found

    def _policy(self, kind: str, spec: Any, path: ValuePath) -> Any:
        """Check a policy: unknown names and invalid options are problems."""
        name = policy_name(spec)
        if name is None or len(name) > LONGEST:
            self._add(path, f"expected a {kind} policy, its name or {{name: options}}, got {show(spec)}")
        elif ":" not in name or self.folder is not None:
            try:
                policy: Any = plugins.resolve(kind, spec)
            except SettingsError as error:
                self._add(path, *error.problems)
            else:
                if self.folder is not None and kind == "uri_precedence" and policy_factory.preloaded_file(spec):
                    return policy.spec_with(self._file(policy.file, path, gzip=True) or policy.file)
        elif not re.fullmatch(HOOK, name):
            self._add(path, f"expected module:name, got {show(name)}")
        return spec


def _pattern(text: str, *, groups: bool) -> None:
    """Check a pattern of a file; only overrides have those of `groups`. Raises SettingsError."""
    kind = parse_match(text).kind
    if kind == "sheet":
        raise SettingsError(f'"{brief(text)}" is for adjustments: write the values under `sheets`')
    if kind == "group" and not groups:
        raise SettingsError(f'"{brief(text)}" is for overrides and adjustments: write the pattern of the URIs here')
