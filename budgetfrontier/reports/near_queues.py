"""The search for a queue by another name: a URL, a name in capitals, or a mistyped one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches
from itertools import chain, islice

from budgetfrontier.errors import InvalidUrl, PolicyError
from budgetfrontier.reports.format import clean
from budgetfrontier.storage.url_search import queue_of
from budgetfrontier.storage.view import View

_LONGEST = 100  # characters of the given text that are compared
_COMPARED = 500  # keys of each beginning
_BEGINNINGS = (16, 8, 4, 2, 1, 0)  # characters
_ALIKE = 0.8  # of 1.0, by difflib
_CHARACTERS = "abcdefghijklmnopqrstuvwxyz0123456789-.,:_"


def meant(view: View, text: str) -> str | None:
    """Return the key of the queue that `text` surely means: a URL, or a host in capitals or with a dot at its end.

    None if there is no such queue. O(log n).
    """
    url = re.sub(r"^(https?://[^/?#]*?)\.*(?=[:/?#]|$)", r"\1", text if "://" in text else f"http://{text}", flags=re.I)
    try:
        key = queue_of(view, url)
    except (InvalidUrl, PolicyError):
        return None
    return key if view.find_queue(key) else None


def nearest(view: View, text: str, *, most: int = 3) -> list[str]:
    """Return the keys most similar to `text`, the best first: an exact one, the host with a port, similar names.

    Similar are keys that are one mistyped character away, and the closest of 3,000 that begin like the text. At most
    about 0.1 s for any number of queues.
    """
    text = text.encode("utf-8", "replace").decode()  # an argument of the command line need not be text
    sure = meant(view, text)
    if sure is not None:
        return [sure]
    text = re.sub(r"^https?://([^/?#]*).*", r"\1", text[:_LONGEST], flags=re.I | re.S).lower()
    host = re.sub(r"\.?(:\d*)?$", "", text)
    with_port = list(islice(view.names(f"{host}:"), most))
    if with_port or view.find_queue(host):
        return with_port or [host]
    mistyped = [key for key in _one_character_off(text) if view.find_queue(key)]
    alike = (key for length in _BEGINNINGS for key in islice(view.names(text[:length]), _COMPARED))
    keys = {key.lower(): key for key in chain(mistyped, alike)}
    return [keys[found] for found in get_close_matches(text, keys, n=most, cutoff=_ALIKE)]


def did_you_mean(view: View, text: str) -> str:
    """Return the end of a sentence that asks whether one of the nearest keys was meant; "" if none is near."""
    near = [clean(key) for key in nearest(view, text)]
    if not near:
        return ""
    return f"; did you mean {' or '.join(filter(None, (', '.join(near[:-1]), near[-1])))}?"


def _one_character_off(text: str) -> Iterator[str]:
    """Yield `text` with one character more, less or another, or two of them exchanged."""
    for at in range(len(text) + 1):
        before, here, after = text[:at], text[at : at + 1], text[at + 1 :]
        if here:
            yield before + after
            yield f"{before}{after[:1]}{here}{after[1:]}"
        for character in _CHARACTERS:
            yield f"{before}{character}{here}{after}"
            if here:
                yield f"{before}{character}{after}"
