"""Settings and URLs without their secrets, for whoever may look at a crawl and is not to have its passwords."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec

from budgetfrontier.settings.credentials import VARIABLE
from budgetfrontier.settings.field import Field, fields

HIDDEN = "***"
"""The text in the place of a secret."""
# Also in a JSON string, as it is escaped there, and in HTML; no URL has a space, a quote or an angle bracket in it.
_USER = re.compile(r"""(\w://)((?:&#x?[0-9a-fA-F]+;|\\.|[^\s/?#<>"\\])*)@""")
_ENCODED_USER = re.compile(r"""(%3A(?:%2F%2F|//))((?:(?!%2F|%3F|%23)[^\s/?#<>"&])*)%40""", re.IGNORECASE)
_COLON, _ENCODED_COLON = re.compile(":"), re.compile("%3A", re.IGNORECASE)
_USER_OF_SECRET = re.compile(r"(\w://)\S*@")  # a password with a slash in it, which is none of a URL
_ORIGIN = re.compile(r"(https?://[^/?#]*)(.*)", re.DOTALL | re.IGNORECASE)
_S = TypeVar("_S", bound=msgspec.Struct)


def without_passwords(text: str) -> str:
    """Return a text with HIDDEN for the password of each URL in it, or for its user if that is without a password.

    Also where URLs are in JSON, in HTML, or percent-encoded in another URL. A URL names the same page as before unless
    `strip_userinfo` is off.

    >>> without_passwords("http://alice:se@cret@a.test/ /explain?target=http%3A%2F%2Ftoken%40a.test")
    'http://alice:***@a.test/ /explain?target=http%3A%2F%2F***%40a.test'
    """
    if "@" in text:
        text = _USER.sub(lambda found: f"{found[1]}{_told(found[2], _COLON)}@", text)
    if "%40" in text:
        text = _ENCODED_USER.sub(lambda found: f"{found[1]}{_told(found[2], _ENCODED_COLON)}%40", text)
    return text


def _told(userinfo: str, colon: re.Pattern[str]) -> str:
    found = colon.search(userinfo)
    return HIDDEN if found is None else f"{userinfo[: found.end()]}{HIDDEN}"


def redacted(section: _S) -> _S:
    """Return settings, or a section of them, with HIDDEN in the place of each secret.

    Those are the settings whose `Field` says so, and in all others the password in a URL. The name of an
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
        return without_passwords(value)
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
