"""Loading of policies by the names in the settings: built-in ones, their Heritrix names, installed ones, own ones."""

from __future__ import annotations

import functools
import importlib
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from budgetfrontier.core.spelling import did_you_mean, nearest
from budgetfrontier.errors import PolicyError, SettingsError, pass_on_interruption

ENTRY_POINTS = "budgetfrontier.policies"
"""Entry point group under which packages register policies as "kind.name": "cost.mine" is the cost policy "mine"."""

_CALLS: dict[str, tuple[tuple[str, ...], dict[str, None]]] = {
    "cost": (("uri",), {}),
    "assignment": (("uri",), {}),
    "precedence": (("uri",), {"precedence": None}),
    "uri_precedence": (("uri",), {}),
    "politeness": (("settings",), {"fetch_seconds": None, "crawl_delay": None, "random": None}),
    "canonicalization": (("href",), {}),
}
"""The arguments that the policies of each kind are called with: positional ones and keywords."""

KINDS = tuple(_CALLS)
_CAPITAL = re.compile("(?<=[a-z])[A-Z]")


def resolve(kind: str, spec: str | Mapping[str, Any], **more: Any) -> Callable[..., Any]:
    """Return a new instance of the policy of a kind (one of KINDS) that `spec` names; `more` options win over its own.

    A spec is a name, or a name with options: `{"additive": {"rules": [...]}}`, or `{"policy": "additive", "rules":
    [...]}`. A list in place of the options is the option `rules`. A name is one of `known(kind)`, the name of a
    Heritrix class with or without its package, or "module:name". The name may refer to a class, which is called once
    with the options, or to a function or other callable, to which the options are passed as keyword arguments at every
    call. Option names may be in kebab-case; those of built-in policies may be Heritrix's, `parallelQueues`.

    Raises PolicyError if there is no policy of that name (the message lists those there are), or if it cannot be
    imported, does not take these options, or cannot be called as policies of this kind are.
    """
    if kind not in KINDS:
        raise PolicyError(f"there is no kind of policy {kind!r}; there are {', '.join(KINDS)}")
    name, options = _parse(kind, spec)
    target = _find(kind, name)
    if target in _module(kind).BUILTIN.values():
        options = _own_names(kind, name, options)
    policy: Callable[..., Any] = _make(kind, name, target, {**options, **more})
    return policy


def known(kind: str) -> list[str]:
    """Return the names of all policies of a kind: the built-in ones, then the installed ones in alphabetical order."""
    return [*_module(kind).BUILTIN, *sorted(_installed(kind))]


def heritrix_names(kind: str, *, rules: bool = False) -> Mapping[str, str]:
    """Return the built-in policies of a kind, or the rules that they take, by the names of Heritrix's classes."""
    names: Mapping[str, str] = getattr(_module(kind), "HERITRIX_RULES" if rules else "HERITRIX")
    return names


def is_own(spec: object) -> bool:
    """Return whether a spec names a policy as "module:name", code that `resolve` imports; False if it is no spec."""
    try:
        return _is_reference(_parse("", spec)[0])
    except PolicyError:
        return False


def is_builtin(kind: str, spec: object) -> bool:
    """Return whether a spec names a built-in policy of a kind, by its own name or that of Heritrix."""
    try:
        return _builtin(kind, _parse(kind, spec)[0]) in _module(kind).BUILTIN
    except PolicyError:
        return False


def _builtin(kind: str, name: str) -> str:
    """Return the built-in policy that a name would mean, whether or not there is one."""
    found: str = _module(kind).HERITRIX.get(name.rpartition(".")[2], name.replace("_", "-"))
    return found


def _is_reference(name: str) -> bool:
    return ":" in name


def _parse(kind: str, spec: object) -> tuple[str, dict[str, Any]]:
    name: object = spec
    options: object = {}
    if isinstance(spec, Mapping):
        if "policy" in spec:
            name, options = spec["policy"], {key: value for key, value in spec.items() if key != "policy"}
        elif len(spec) == 1:
            name, options = next(iter(spec.items()))
            options = {"rules": options} if isinstance(options, list | tuple) else options
    if not isinstance(name, str) or not isinstance(options, Mapping | None):
        raise PolicyError(f"{kind} policy: expected a name, or {{name: {{option: value}}}}, not {spec!r:.200}")
    return name.strip(), {str(key).replace("-", "_"): value for key, value in (options or {}).items()}


def _own_names(kind: str, name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a built-in policy by our names, where they are given by those of Heritrix."""
    heritrix = getattr(_module(kind), "HERITRIX_OPTIONS", {})
    ours = {key: heritrix.get(key) or _CAPITAL.sub(lambda found: f"_{found[0].lower()}", key) for key in options}
    for key, option in ours.items():
        if key != option and option in options:
            raise PolicyError(f"{kind} policy {name}: {key} sets {option} a second time")
    return {ours[key]: value for key, value in options.items()}


def _find(kind: str, name: str) -> Any:
    module = _module(kind)
    if _is_reference(name):
        return _load(kind, name)
    builtin = _builtin(kind, name)
    if builtin in module.BUILTIN:
        return module.BUILTIN[builtin]
    installed = _installed(kind)
    if name in installed:
        return _load(kind, installed[name])
    names = known(kind)
    near = nearest(builtin, names)
    hint = f" (did you mean {near}?)" if near else ""
    raise PolicyError(
        f"there is no {kind} policy {name!r}{hint}; there are {', '.join([*names, *module.HERITRIX])}, and your own as "
        "module:name"
    )


def _make(kind: str, name: str, target: Any, options: dict[str, Any]) -> Any:
    title = f"{kind} policy {name}"
    is_class = isinstance(target, type)
    divider = getattr(target, "divided_by", None)
    if divider is not None and options:
        dividing = {option: options[option] for option in _options(divider) if option in options}
        if dividing:
            own = {option: value for option, value in options.items() if option not in dividing}
            policy = _make(kind, name, target, own)
            return _called(title, divider, (policy,), dividing)
    if is_class and not options and target in _module(kind).BUILTIN.values():
        return target()  # a look at signatures would take two fifths of the time to open a frontier
    if why := objection(target, options, complete=is_class):
        known = [*_options(target), *(_options(divider) if divider is not None else ())]
        meant = next(filter(None, (did_you_mean(name, known) for name in options if name not in known)), "")
        raise PolicyError(f"{title}: {why}; its options are: {', '.join(known) or 'none'}{meant}")
    policy = _called(title, target, (), options) if is_class else target
    if not callable(policy):
        raise PolicyError(f"{title} is neither a function nor a class whose instances can be called")
    if is_async(policy):
        raise PolicyError(f"{title} is async; policies are called, not awaited")
    if options and not is_class:
        policy = functools.partial(policy, **options)
    arguments, options = _CALLS[kind]
    if kind == "assignment" and getattr(policy, "by_address", False):
        options = {"address": None}
    if why := objection(policy, options, *arguments):
        call = ", ".join([*arguments, *(f"{option}=..." for option in options)])
        raise PolicyError(f"{title} must take ({call}): {why}")
    return policy


def _called(title: str, target: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    try:
        return target(*arguments, **options)
    except (TypeError, ValueError) as error:
        raise PolicyError(f"{title}: {error}") from error


def objection(target: Any, options: Mapping[str, Any], *arguments: object, complete: bool = True) -> str | None:
    """Return why `target` cannot be called with these arguments; None if it can, or if that is unknown (C code).

    With `complete=False`, further arguments may still be missing.
    """
    from inspect import signature  # takes 5 ms, and importing budgetfrontier has to be quick

    try:
        shape = signature(target)
    except (TypeError, ValueError):
        return None
    try:
        (shape.bind if complete else shape.bind_partial)(*arguments, **options)
    except TypeError as error:
        return str(error)
    return None


def is_async(function: Any) -> bool:
    """Return whether a function, or the method by which an object is called, is a coroutine function."""
    from inspect import iscoroutinefunction  # as above

    return iscoroutinefunction(function) or iscoroutinefunction(function.__call__)


def _options(target: Any) -> list[str]:
    from inspect import Parameter, signature

    return [one.name for one in signature(target).parameters.values() if one.kind is Parameter.KEYWORD_ONLY]


NOT_IMPORTED = "cannot be imported"
"""A part of the message on code of the user's that is not there, or fails: the settings that name it may be right."""


def load(reference: str) -> Any:
    """Import and return the object "module:name"; the name may have dots. Raises SettingsError for any failure."""
    module, _, name = reference.partition(":")
    try:
        return operator.attrgetter(name.strip())(importlib.import_module(module.strip()))
    except (Exception, SystemExit) as error:  # importing runs the user's code, which may raise anything
        pass_on_interruption(error)
        missing = isinstance(error, ModuleNotFoundError)
        remedy = "; install it, or name its folder in the environment variable PYTHONPATH" if missing else ""
        raise SettingsError(f"{reference} {NOT_IMPORTED}: {type(error).__name__}: {error}{remedy}") from error


def make(reference: str) -> Any:
    """Return the object "module:name", or an instance if it is a class (called without arguments).

    Raises SettingsError, whatever the import or the call raises.
    """
    found = load(reference)
    if not isinstance(found, type):
        return found
    try:
        return found()
    except Exception as error:
        pass_on_interruption(error)
        raise SettingsError(f"{reference} cannot be made: {type(error).__name__}: {error}") from error


def _load(kind: str, reference: str) -> Any:
    try:
        return load(reference)
    except SettingsError as error:
        raise PolicyError(f"{kind} policy {error}") from error.__cause__


def _module(kind: str) -> Any:
    return importlib.import_module(f"budgetfrontier.settings.policies.{kind}")


def _installed(kind: str) -> dict[str, str]:
    """Return the policies that installed packages register: "module:name" by the policy's name."""
    from importlib.metadata import entry_points

    prefix = f"{kind}."
    return {
        point.name.removeprefix(prefix): point.value
        for point in entry_points(group=ENTRY_POINTS)
        if point.name.startswith(prefix)
    }
