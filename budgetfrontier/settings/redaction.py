"""Settings without their secrets, for whoever may look at a crawl and is not to have its passwords."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec

from budgetfrontier.settings.credentials import VARIABLE
from budgetfrontier.settings.field import Field, fields

HIDDEN = "***"
"""The text in the place of a secret."""
_USER = re.compile(r"(\w://)[^\s/?#]*@")
_USER_OF_SECRET = re.compile(r"(\w://)\S*@")  # a password with a slash in it, which is none of a URL
_ORIGIN = re.compile(r"(https?://[^/?#]*)(.*)", re.DOTALL | re.IGNORECASE)
_S = TypeVar("_S", bound=msgspec.Struct)


def redacted(section: _S) -> _S:
    """Return settings, or a section of them, with HIDDEN in the place of each secret.

    Those are the settings whose `Field` says so, and in all others the user and the password in a URL. The name of an
    environment variable, `${NAME}`, is no secret.
    """
    known = fields(type(section))
    changes: dict[str, Any] = {}
    for name in section.__struct_fields__:
        field, value = known.get(name), getattr(section, name)
        told = without_secrets(value, field.secret if isinstance(field, Field) else "")
        if told is not value:
            changes[name] = told
    return msgspec.structs.replace(section, **changes) if changes else section


def without_secrets(value: Any, secret: str = "") -> Any:
    """Return the value of a setting with its secrets hidden; `secret` is that of its `Field`."""
    if secret:
        return _hidden(value, secret)
    if isinstance(value, msgspec.Struct):
        return redacted(value)
    if isinstance(value, str):
        return _USER.sub(rf"\1{HIDDEN}@", value) if "@" in value else value
    if isinstance(value, tuple | list | frozenset):
        return type(value)(map(without_secrets, value))
    return {name: without_secrets(one) for name, one in value.items()} if isinstance(value, dict) else value


def _hidden(value: Any, secret: str) -> Any:
    if isinstance(value, dict):
        return {name: _hidden(one, secret) for name, one in value.items()}
    if isinstance(value, tuple):  # a program, whose arguments may have anything
        program = value[:1] if value and value[0].split() == [value[0]] else ()
        return (*program, *(_hidden(one, secret) for one in value[len(program) :]))
    if not value:
        return value
    told = _USER_OF_SECRET.sub(rf"\1{HIDDEN}@", value)
    if secret == "query":
        text, mark, rest = told.partition("?")
        return f"{text}{mark}{HIDDEN}" if _tells(rest) else told
    if secret == "url" and (url := _ORIGIN.fullmatch(told)):
        return f"{url[1]}/{HIDDEN}" if _tells(url[2]) else told
    return HIDDEN if _tells(value) else value


def _tells(text: str) -> bool:
    """Return whether a text has anything but environment variables, and what separates them."""
    return bool(VARIABLE.sub("", text).strip(":/"))
