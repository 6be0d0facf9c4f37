"""From a policy's name in the settings to the policy: ours, Heritrix's names for ours, and anybody's."""

from __future__ import annotations

import difflib
import functools
import importlib
import operator
from collections.abc import Callable, Mapping
from typing import Any

from budgetfrontier.errors import PolicyError

ENTRY_POINTS = "budgetfrontier.policies"
"""Group under which installed packages offer policies, each as "kind.name": "cost.mine" is the cost policy "mine"."""

_CALLS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "cost": (("uri",), ()),
    "assignment": (("uri",), ()),
    "precedence": (("uri",), ("precedence",)),
    "politeness": (("settings",), ("fetch_seconds", "crawl_delay", "random")),
    "canonicalization": (("href",), ()),
}
"""What the policies of each kind are called with: positional and keyword arguments."""

KINDS = tuple(_CALLS)


def resolve(kind: str, spec: str | Mapping[str, Any]) -> Callable[..., Any]:
    """Make the policy of a kind (one of KINDS) that a spec asks for; each call makes a new one.

    A spec is a name, or a name with options: `{"additive": {"rules": [...]}}`, or `{"policy": "additive", "rules":
    [...]}`. A name is one of `known(kind)`, the name of a Heritrix class with or without its package, or
    "module:name". What stands there may be a class (made with the options), or a function or other callable (to which
    the options are given as keyword arguments at every call). Kebab-case names of options mean the same.

    Raises PolicyError: nothing of that name (the message lists what there is), it cannot be imported, it does not take
    these options, or it cannot be called as policies of this kind are.
    """
    if kind not in KINDS:
        raise PolicyError(f"there is no kind of policy {kind!r}; there are {', '.join(KINDS)}")
    name, options = _read(kind, spec)
    return _make(kind, name, _find(kind, name), options)


def known(kind: str) -> list[str]:
    """The names of all policies of a kind, built in or installed, ours first."""
    return [*_module(kind).BUILTIN, *sorted(_installed(kind))]


def _read(kind: str, spec: object) -> tuple[str, dict[str, Any]]:
    name: object = spec
    options: object = {}
    if isinstance(spec, Mapping):
        if "policy" in spec:
            name, options = spec["policy"], {key: value for key, value in spec.items() if key != "policy"}
        elif len(spec) == 1:
            name, options = next(iter(spec.items()))
    if not isinstance(name, str) or not isinstance(options, Mapping | None):
        raise PolicyError(f"{kind} policy: expected a name, or {{name: {{option: value}}}}, not {spec!r:.200}")
    return name.strip(), {str(key).replace("-", "_"): value for key, value in (options or {}).items()}


def _find(kind: str, name: str) -> Any:
    module = _module(kind)
    if ":" in name:
        return _load(kind, name)
    ours = module.HERITRIX.get(name.rpartition(".")[2], name.replace("_", "-"))
    if ours in module.BUILTIN:
        return module.BUILTIN[ours]
    installed = _installed(kind)
    if name in installed:
        return _load(kind, installed[name])
    names = known(kind)
    near = difflib.get_close_matches(ours, names, n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    raise PolicyError(
        f"there is no {kind} policy {name!r}{hint}; there are {', '.join([*names, *module.HERITRIX])}, and your own as "
        "module:name"
    )


def _make(kind: str, name: str, target: Any, options: dict[str, Any]) -> Callable[..., Any]:
    from inspect import Parameter, signature

    built_in = target in _module(kind).BUILTIN.values()
    try:
        if isinstance(target, type):
            signature(target).bind(**options)
        elif callable(target) and options:
            signature(target).bind_partial(**options)
    except TypeError as error:
        takes = [one.name for one in signature(target).parameters.values() if one.kind is Parameter.KEYWORD_ONLY]
        raise PolicyError(f"{kind} policy {name}: {error}; its options are: {', '.join(takes) or 'none'}") from None
    policy: Callable[..., Any] = target
    try:
        if isinstance(target, type):
            policy = target(**options)
    except (TypeError, ValueError) as error:
        raise PolicyError(f"{kind} policy {name}: {error}") from error
    if options and policy is target:
        policy = functools.partial(target, **options)
    if not callable(policy):
        raise PolicyError(f"{kind} policy {name} is no function, nor a class whose instances can be called")
    if not built_in:
        positional, keywords = _CALLS[kind]
        try:
            signature(policy).bind(*positional, **dict.fromkeys(keywords))
        except TypeError as error:
            call = ", ".join([*positional, *(f"{keyword}=..." for keyword in keywords)])
            raise PolicyError(f"{kind} policy {name} must take ({call}): {error}") from None
    return policy


def _load(kind: str, place: str) -> Any:
    """Import "module:name"; the name may have dots."""
    module, _, name = place.partition(":")
    try:
        return operator.attrgetter(name.strip())(importlib.import_module(module.strip()))
    except Exception as error:  # importing runs somebody's code, which may do anything
        raise PolicyError(f"{kind} policy {place} cannot be imported: {type(error).__name__}: {error}") from error


def _module(kind: str) -> Any:
    return importlib.import_module(f"budgetfrontier.policies.{kind}")


def _installed(kind: str) -> dict[str, str]:
    """Names and places ("module:name") of the policies that other packages offer."""
    from importlib.metadata import entry_points

    start = f"{kind}."
    return {
        point.name.removeprefix(start): point.value
        for point in entry_points(group=ENTRY_POINTS)
        if point.name.startswith(start)
    }
