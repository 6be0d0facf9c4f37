"""Checks of `alerts.sinks`: each is of one kind, and complete, and its environment variables are set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from budgetfrontier.settings.credentials import UNSENDABLE, VARIABLE, missing
from budgetfrontier.settings.problems import Problem, ValuePath
from budgetfrontier.settings.schema import AlertSink
from budgetfrontier.settings.values import brief, show

KINDS = ("webhook", "command", "mail")
_OF_KIND = {"secret": "webhook", "sender": "mail", "login": "mail"}


def kind_of(sink: AlertSink) -> str:
    """Return the kind of a sink, "" if it has none."""
    return next((kind for kind in KINDS if getattr(sink, kind)), "")


def name_of(sink: AlertSink) -> str:
    """Return the name of a sink: its own, or its kind."""
    return sink.name or kind_of(sink)


def sink_problems(sink: AlertSink, path: ValuePath, environment: Mapping[str, str] | None) -> Iterator[Problem]:
    """Yield the problems of a sink at a path; variables are looked for if there is an environment."""
    kinds = [kind for kind in KINDS if getattr(sink, kind)]
    if len(kinds) != 1:
        got = f"got {' and '.join(kinds)}; write an entry for each" if kinds else "and that it is not empty"
        yield Problem(path, f"expected one of webhook, command and mail, {got}")
        return
    for name, kind in _OF_KIND.items():
        if getattr(sink, name) is not None and kind != kinds[0]:
            yield Problem((*path, name), f"this is for {kind}, not for {kinds[0]}")
    if sink.webhook and not VARIABLE.search(sink.webhook) and not is_url(sink.webhook):
        yield Problem((*path, "webhook"), f"expected an http or https URL, got {show(sink.webhook)}")
    if len(sink.command) == 1 and len(words := sink.command[0].split()) > 1 and "/" not in words[0]:
        yield Problem((*path, "command"), f"no shell reads this: write a list, [{', '.join(map(show, words))}]")
    for index, address in enumerate(sink.mail):
        if "@" not in address or UNSENDABLE.search(address):
            yield Problem((*path, "mail", index), f"expected an address, got {show(address)}")
    if sink.mail and not sink.sender:
        yield Problem(path, "mail needs a sender")
    if sink.mail and server_of(sink) is None:
        yield Problem((*path, "server"), f"expected HOST:PORT, got {show(sink.server)}")
    texts = {"webhook": sink.webhook, "secret": sink.secret, "login": sink.login}
    for name, text in texts.items():
        for variable in missing(text or "", environment) if environment is not None else ():
            yield Problem((*path, name), f"the environment variable {brief(variable)} is not set")


def is_url(text: str) -> bool:
    """Return whether a text is a URL to which can be posted."""
    try:
        parts = urlsplit(text)
        return (
            not any(map(str.isspace, text))
            and parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and parts.port != 0
        )
    except ValueError:
        return False


def server_of(sink: AlertSink) -> tuple[str, int] | None:
    """Return host and port of the server for mail; None if they are not written as such."""
    host, _, port = sink.server.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 1 << 16:
        return None
    return host.strip("[]"), int(port)
