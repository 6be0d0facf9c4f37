"""Plain data in, checked settings out: every problem is collected, with the path of the value it is about."""

from __future__ import annotations

import contextlib
import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from budgetfrontier import plugins
from budgetfrontier.errors import InvalidUrl, SettingsError
from budgetfrontier.settings import schema
from budgetfrontier.settings.matching import parse_match
from budgetfrontier.settings.schema import About, Override, RequestSettings, ScopeRule, Seed, Settings, fields
from budgetfrontier.settings.scope_rules import FORMS, check_rule
from budgetfrontier.settings.values import FLAG, TEXT, Kind, brief, show

S = TypeVar("S", bound=msgspec.Struct)
Place = tuple[str | int, ...]

MOST_PROBLEMS = 100
"""Nobody reads more, and looking for what each unknown name may mean takes its time."""
_DEFAULTS = schema.FrontierSettings()
_LONGEST_NAME = 200  # characters, of anything that is looked for among names


class Problem(NamedTuple):
    """What is wrong, and where; `at_key`: with the key itself rather than its value; `bare`: with the text as such."""

    place: Place
    text: str
    at_key: bool = False
    bare: bool = False

    @property
    def message(self) -> str:
        """The text, behind the dotted name of what it is about."""
        name = "" if self.bare else dotted(self.place[:-1] if self.at_key else self.place)
        return f"{name}: {self.text}" if name else self.text


def dotted(place: Place) -> str:
    """Return a path as messages write it: overrides[0].set.politeness."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{brief(part)}" for part in place).removeprefix(".")


def read_settings(data: Any, base: Settings) -> Settings:
    """Return `base` changed by `data`, or raise SettingsError with every problem."""
    reader = Reader()
    settings = reader.settings(data, base)
    reader.check()
    return settings


class Reader:
    """Reads data and collects problems; what is wrong is left at its default, so that the rest is read too.

    With a `folder`, as for a YAML file, files are relative to it and must exist, seeds must be URLs, and policies,
    hooks and sinks are imported. `warnings` are about values that are valid, but probably not what was meant.
    """

    def __init__(self, *, folder: Path | None = None) -> None:
        self.folder = folder
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []
        self._readers: dict[str, Callable[[Any, Place], Any]] = {
            "addresses": self._addresses,
            "file": self._file,
            "hooks": self._each(self._hook),
            "match": self._match,
            "ordered": self._each(self._ordered_rule),
            "overrides": self._each(self._override),
            "requests": self._each(self._request),
            "rules": self._each(self._rule),
            "seeds": self._each(self._seed),
            "texts": self._texts,
        }

    def check(self) -> None:
        """Raise SettingsError if there were problems."""
        if self.problems:
            raise SettingsError([problem.message for problem in self.problems])

    def settings(self, data: Any, base: Settings) -> Settings:
        """Read everything, on top of the profile that `data` names, if it does."""
        try:
            return self._settings(data, base)
        except _Enough:
            return base

    def _settings(self, data: Any, base: Settings) -> Settings:
        if isinstance(data, Mapping) and "profile" in data:
            from budgetfrontier.settings.loader import profile

            data = dict(data)
            name = data.pop("profile")
            try:
                base = profile(TEXT.read(name), base)
            except SettingsError as error:
                self._add(("profile",), *error.problems)
            except ValueError:
                self._add(("profile",), f"expected the name of a profile, got {show(name)}")
        return self.section(base, data, ())

    def section(self, base: S, data: Any, place: Place) -> S:
        """Return `base` with the fields changed that the mapping `data` gives."""
        if data is None:
            return base
        if not isinstance(data, Mapping):
            self._add(place, f"expected a mapping of settings, got {show(data)}")
            return base
        known = fields(type(base))
        changes: dict[str, Any] = {}
        for key, value in data.items():
            here = (*place, str(key))
            name = field_name(key, known)
            about = known.get(name)
            if about is None:
                self._add_at_key(here, unknown(name, known, place))
            elif name in changes:
                self._add_at_key(here, f"this sets {name} a second time")
            elif isinstance(about, About):
                changes[name] = self.value(about, value, here, getattr(base, name))
            else:
                changes[name] = self.section(getattr(base, name), value, here)
        changed = msgspec.structs.replace(base, **changes)
        if conflict := _conflict(changed):
            self._add(place, conflict)
        return changed

    def value(self, about: About, value: Any, place: Place, default: Any) -> Any:
        """Return the value of one setting, or `default` where it is wrong."""
        if not isinstance(about.kind, Kind):
            if about.kind.startswith("policy:"):
                return self._policy(about.kind.removeprefix("policy:"), value, place)
            return self._readers[about.kind](value, place)
        try:
            read = about.kind.read(value)
        except ValueError as error:
            hint = "; yes, no, on and off are texts here" if value in ("yes", "no", "on", "off") else ""
            self._add(place, f"expected {about.kind.text}, got {error}{hint if about.kind is FLAG else ''}")
            return default
        if len(self.warnings) < MOST_PROBLEMS and (doubt := about.kind.doubt(value, read, default)):
            self.warnings.append(Problem(place, doubt))
        return read

    def overriding(self, data: Any) -> dict[str, Any]:
        """Return what an override sets by dotted names; `data` may nest, {"retry": {"delay": 5}}, or not."""
        try:
            return self._overriding(data, ())
        except _Enough:
            return {}

    def _overriding(self, data: Any, place: Place, prefix: str = "") -> dict[str, Any]:
        found: dict[str, Any] = {}
        if not isinstance(data, Mapping):
            self._add(place, f"expected a mapping of settings, got {show(data)}")
            return found
        known = per_uri()
        for key, value in data.items():
            here = (*place, str(key))
            name = _ALIASES.get(prefix + snake(key), prefix + snake(key))
            about = known.get(name)
            if about is None and any(n.startswith(name + ".") for n in known):
                added = self._overriding(value, here, name + ".")
            elif about is None:
                self._add_at_key(here, _not_per_uri(name))
                continue
            else:
                added = {name: self.value(about, value, here, attrgetter(name)(_DEFAULTS))}
            for twice in found.keys() & added.keys():
                self._add_at_key(here, f"this sets {twice} a second time")
            found |= added
        least, most = found.get("politeness.min_delay"), found.get("politeness.max_delay")
        if not prefix and least is not None and most is not None and least > most:
            self._add(place, _longer(least, most))
        return found

    def _add(self, place: Place, *texts: str) -> None:
        self._problem(*(Problem(place, text) for text in texts))

    def _add_at_key(self, place: Place, text: str) -> None:
        self._problem(Problem(place, text, at_key=True))

    def _problem(self, *problems: Problem) -> None:
        self.problems += problems
        if len(self.problems) > MOST_PROBLEMS:
            stopped = self.problems[MOST_PROBLEMS]
            self.problems[MOST_PROBLEMS:] = [Problem(stopped.place, "there is more to mend from here on", bare=True)]
            raise _Enough

    def _each(self, read: Callable[[Any, Place], Any]) -> Callable[[Any, Place], tuple[Any, ...]]:
        """Return a reader of lists; a single value stands for a list of one."""

        def read_all(value: Any, place: Place) -> tuple[Any, ...]:
            if value is None:
                return ()
            if not isinstance(value, list | tuple):
                return tuple(item for item in [read(value, place)] if item is not None)
            items = [read(item, (*place, index)) for index, item in enumerate(value)]
            return tuple(item for item in items if item is not None)

        return read_all

    def _seed(self, value: Any, place: Place) -> Seed | None:
        if isinstance(value, Mapping):
            seed = self.section(Seed(), value, place)
            place = (*place, "url")
        else:
            try:
                seed = Seed(url=TEXT.read(value))
            except ValueError as error:
                self._add(place, f"expected a URL, {{url, priority, source, queue}} or {{file}}, got {error}")
                return None
        if self.folder is not None and seed.url is not None and (objection := seed_objection(seed.url)):
            self._add(place, objection)
        return seed

    def _file(self, value: Any, place: Place) -> str | None:
        if value is None:
            return None
        try:
            path = Path(TEXT.read(value))
        except ValueError as error:
            self._add(place, f"expected the path of a file, got {error}")
            return None
        if self.folder is None:
            return str(path)
        path = (self.folder / path).absolute()
        if not _is_file(path):
            self._add(place, f'there is no file "{brief(str(path), 1000)}"')
        return str(path)

    def _hook(self, value: Any, place: Place) -> str | None:
        if not isinstance(value, str) or not re.fullmatch(schema.HOOK, value):
            self._add(place, f"expected module:name, got {show(value)}")
            return None
        if self.folder is not None:
            try:
                plugins.load(value)
            except SettingsError as error:
                self._add(place, *error.problems)
        return value

    def _override(self, value: Any, place: Place) -> Override | None:
        if not isinstance(value, Mapping) or {snake(key) for key in value} != {"match", "set"}:
            got = (
                f"the keys {brief(', '.join(map(str, value)), 200)}"
                if isinstance(value, Mapping) and value
                else show(value)
            )
            self._add(place, f"expected {{match: ..., set: {{...}}}}, got {got}")
            return None
        try:
            parse_match(value["match"])
        except SettingsError as error:
            self._add((*place, "match"), *error.problems)
        return Override(match=value["match"], set=self._overriding(value["set"], (*place, "set")))

    def _rule(self, value: Any, place: Place) -> str | None:
        try:
            value = TEXT.read(value)
            check_rule(value)
        except ValueError as error:
            self._add(place, f"expected a scope rule ({FORMS}), got {error}")
            return None
        except SettingsError as error:
            self._add(place, *error.problems)
            return None
        kind, _, argument = value.partition(":")
        return f"{kind}:{self._file(argument.strip(), place)}" if kind == "surt-file" else value

    def _ordered_rule(self, value: Any, place: Place) -> ScopeRule | None:
        if isinstance(value, Mapping) and set(value) == {"accept", "rule"} and isinstance(value["accept"], bool):
            value = {"accept" if value["accept"] else "reject": value["rule"]}  # the plain form of a ScopeRule
        if not isinstance(value, Mapping) or len(value) != 1 or next(iter(value)) not in ("accept", "reject"):
            self._add(place, f"expected {{accept: rule}} or {{reject: rule}}, got {show(value)}")
            return None
        kind, rule = next(iter(value.items()))
        read = self._rule(rule, (*place, kind))
        return None if read is None else ScopeRule(kind == "accept", read)

    def _match(self, value: Any, place: Place) -> str:
        try:
            parse_match(value)
        except SettingsError as error:
            self._add(place, *error.problems)
        return str(value)

    def _request(self, value: Any, place: Place) -> RequestSettings | None:
        if not isinstance(value, Mapping):
            self._add(place, f"expected {{match, headers, cookies, auth}}, got {show(value)}")
            return None
        return self.section(RequestSettings(), value, place)

    def _texts(self, value: Any, place: Place) -> dict[str, str]:
        if not isinstance(value, Mapping):
            if value is not None:
                self._add(place, f"expected a mapping of names to texts, got {show(value)}")
            return {}
        texts: dict[str, str] = {}
        for name, text in value.items():
            try:
                texts[TEXT.read(name)] = TEXT.read(text)
            except ValueError as error:
                self._add((*place, str(name)), f"expected a text, got {error}")
        return texts

    def _addresses(self, value: Any, place: Place) -> dict[str, str]:
        if not isinstance(value, Mapping):
            if value is not None:
                self._add(place, f'expected a mapping of host globs to "ip:port", got {show(value)}')
            return {}
        for pattern, address in value.items():
            if not is_address(address):
                self._add((*place, str(pattern)), f'expected "ip:port", such as "127.0.0.1:8080", got {show(address)}')
        return {str(pattern).lower(): str(address) for pattern, address in value.items()}

    def _policy(self, kind: str, spec: Any, place: Place) -> Any:
        """Look up a policy: an unknown name and wrong options are problems."""
        name = policy_name(spec)
        if name is None or len(name) > _LONGEST_NAME:
            self._add(place, f"expected a {kind} policy, its name or {{name: options}}, got {show(spec)}")
        elif ":" not in name or self.folder is not None:
            try:
                plugins.resolve(kind, spec)
            except SettingsError as error:
                self._add(place, *error.problems)
        elif not re.fullmatch(schema.HOOK, name):
            self._add(place, f"expected module:name, got {show(name)}")
        return spec


class _Enough(Exception):
    """So many problems that reading stops; never leaves this module."""


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name that is too long; a NUL
        return False


def seed_objection(url: str) -> str | None:
    """Return why a seed cannot be crawled, and what is probably meant; None if nothing speaks against it."""
    from budgetfrontier import uris  # it loads the URL parser, which only files with seeds need

    try:
        uris.parse(url)
    except InvalidUrl as error:
        reason = str(error).rstrip(":")
    else:
        return None
    if not re.match(r"[A-Za-z][\w+.-]*:(?![0-9])", url):  # what is before the colon of "localhost:80" is a host
        with contextlib.suppress(InvalidUrl):
            uris.parse(f"https://{url}")
            return f'{show(url)} has no scheme; did you mean "https://{brief(url)}"?'
    return f"{show(url)} cannot be crawled: {reason}"


def policy_name(spec: Any) -> str | None:
    """Return the name in a policy's spec: "name", {"name": options} or {"policy": name, **options}; None if none."""
    if isinstance(spec, Mapping):
        spec = spec["policy"] if "policy" in spec else next(iter(spec)) if len(spec) == 1 else None
    return spec if isinstance(spec, str) and spec else None


def is_address(value: Any) -> bool:
    """Tell whether this is "ip:port", with brackets around an IPv6 address."""
    match = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[0-9.]+):([1-9][0-9]{0,4})", value) if isinstance(value, str) else None
    if not match or int(match[2]) > 65535:
        return False
    try:
        ipaddress.ip_address(match[1].strip("[]"))
    except ValueError:
        return False
    return True


def snake(key: Any) -> str:
    """Return a key in its one spelling: kebab-case means the same."""
    return str(key).replace("-", "_")


def field_name(key: Any, known: Mapping[str, Any]) -> str:
    """Return the field that a key names, through the aliases too."""
    name = snake(key)
    return _ALIASES[name] if _ALIASES.get(name, "") in known else name


@cache
def per_uri() -> dict[str, About]:
    """Return the settings of `frontier` that overrides and adjustments may set, by dotted name."""
    found: dict[str, About] = {}
    for name, about in fields(schema.FrontierSettings).items():
        rows = {name: about} if isinstance(about, About) else {f"{name}.{n}": a for n, a in fields(about).items()}
        found |= {row: a for row, a in rows.items() if isinstance(a, About) and a.per_uri}
    return found


_ALIASES = {
    alias: name
    for name, about in fields(schema.FrontierSettings).items()
    if isinstance(about, About)
    for alias in about.aliases
}


@cache
def _homes() -> dict[str, list[str]]:
    """Return under which sections each name is known."""
    homes: dict[str, list[str]] = {}
    for row in schema.all_settings():
        parts = row.name.split(".")
        for depth, part in enumerate(parts):
            home = ".".join(parts[:depth])
            if home not in homes.setdefault(part, []):
                homes[part].append(home)
    for alias, name in _ALIASES.items():
        homes[alias] = homes[name]
    return homes


def unknown(name: str, known: Iterable[str], place: Place) -> str:
    """Return the message for a key that is not known here: where it belongs, else the nearest name, else all names."""
    homes = _homes()
    if name in homes and (elsewhere := [home for home in homes[name] if home]):
        return f'"{name}" belongs under {" or ".join(home + ":" for home in elsewhere)}'
    if name in homes:
        return f'"{name}" belongs at the top level'
    names = [*known] if place else [*known, "profile"]
    if hint := nearest(name, names):
        return f'unknown key "{name}"{hint}'
    if near := _near(name, homes, 0.8):
        return f'unknown key "{name}"; did you mean "{near[0]}", under {homes[near[0]][0] or "the top level"}?'
    return f'unknown key "{brief(name)}"; known here: {", ".join(names)}'


def nearest(name: Any, names: Iterable[str]) -> str:
    """Return '; did you mean "..."?', or nothing if no name is near."""
    near = _near(str(name), names, 0.6)
    return f'; did you mean "{near[0]}"?' if near else ""


def _near(name: str, names: Iterable[str], ratio: float) -> list[str]:
    """Return the nearest name, if one is near: difflib is slow with long ones."""
    from difflib import get_close_matches  # here, as only mistakes need it

    return get_close_matches(name, list(names), 1, ratio) if len(name) <= _LONGEST_NAME else []


def _not_per_uri(name: str) -> str:
    known = per_uri()
    if name in fields(schema.FrontierSettings):
        return f'"{name}" holds for the whole frontier and cannot be set here; these can: {", ".join(known)}'
    full = next((n for n in known if n.endswith("." + name)), None)
    hint = f'; did you mean "{full}"?' if full else nearest(name, known)
    return f'unknown setting "{brief(name)}"{hint or "; known here: " + ", ".join(known)}'


def _longer(min_delay: float, max_delay: float) -> str:
    return f"min_delay ({min_delay:g} s) is longer than max_delay ({max_delay:g} s)"


def _conflict(section: msgspec.Struct) -> str | None:
    """Return what is wrong with values that are each right alone."""
    match section:
        case schema.PolitenessSettings() if section.min_delay > section.max_delay:
            return _longer(section.min_delay, section.max_delay)
        case schema.CanonicalizationSettings() if section.ignore_params and section.keep_params:
            return "ignore_params and keep_params exclude each other; use one of them"
        case Seed() if (section.url is None) == (section.file is None):
            return "a seed has either a url or a file"
        case _:
            return None
