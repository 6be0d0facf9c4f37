"""The codec that was chosen, by typed messages: finds its module, and turns whatever it raises into BadMessage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from budgetfrontier.bus.messages import (
    AddSeeds,
    BadMessage,
    LinksExtracted,
    Message,
    NewJobId,
    Offset,
    PageCrawled,
    Request,
    RequestError,
    Response,
    Stats,
    UpdateScore,
)
from budgetfrontier.settings import plugins

MAX_SIZE = 16 << 20
"""The longest message that is encoded or decoded, in bytes."""

T = TypeVar("T")

_OWN = "budgetfrontier.bus.codecs"
_BUILTIN = {
    "msgpack": f"{_OWN}.msgpack",
    "json": f"{_OWN}.json",
    "frontera.contrib.backends.remote.codecs.msgpack": f"{_OWN}.msgpack",
    "frontera.contrib.backends.remote.codecs.json": f"{_OWN}.json",
}

_TYPES: dict[str, Callable[..., Message]] = {
    "page_crawled": PageCrawled,
    "links_extracted": LinksExtracted,
    "request_error": RequestError,
    "update_score": UpdateScore,
    "offset": Offset,
    "new_job_id": NewJobId,
    "add_seeds": AddSeeds,
    "stats": Stats,
}
"""The message types by their names in decoders, and in the methods of encoders."""
_NAMES = {kind: name for name, kind in _TYPES.items()}


def name_of(message: Message) -> str:
    """Return the name of a message's type, such as "page_crawled"."""
    return _NAMES[type(message)]


class Codec:
    """Encodes and decodes messages in one wire form.

    `name` is "msgpack" or "json", which are the forms of Frontera 0.8.1 (its own module names stand for them, too), or
    the import path of a module of one's own with classes `Encoder` and `Decoder`, which have the arguments and methods
    of Frontera's. With `send_body`, the bodies of pages are sent. Raises SettingsError if there is no such codec.
    """

    def __init__(self, name: str = "msgpack", *, send_body: bool = False) -> None:
        module = _BUILTIN.get(name, name)
        self._encoder: Any = plugins.load(f"{module}:Encoder")(Request, send_body=send_body)
        self._decoder: Any = plugins.load(f"{module}:Decoder")(Request, Response)
        self._name = name

    def encode(self, message: Message | Request) -> bytes:
        """Return the bytes of a message. Raises BadMessage if it cannot be sent in this form."""
        if isinstance(message, Request):
            return self._encoded("request", message)
        fields = (getattr(message, field) for field in message.__struct_fields__)
        return self._encoded(_NAMES[type(message)], *fields)

    def decode(self, data: bytes) -> Message:
        """Return the message of a log. Raises BadMessage, and nothing else, whatever the bytes."""
        return self._decoded(lambda: self._message(self._decoder.decode(data)), data)

    def decode_request(self, data: bytes) -> Request:
        """Return the request in a message of the spider feed. Raises BadMessage, and nothing else."""
        return self._decoded(lambda: self._request(self._decoder.decode_request(data)), data)

    def _message(self, decoded: object) -> Message:
        if not isinstance(decoded, tuple) or not decoded or decoded[0] not in _TYPES:
            raise BadMessage(f"{self._name}: unknown type of message: {decoded!r:.100}")
        try:
            return _TYPES[decoded[0]](*decoded[1:])
        except TypeError as error:
            raise BadMessage(f"{self._name}: {decoded[0]}: {error}") from error

    def _request(self, request: object) -> Request:
        if not isinstance(request, Request):
            raise BadMessage(f"{self._name}: expected a request, not {type(request).__name__}")
        return request

    def _encoded(self, name: str, *fields: object) -> bytes:
        try:
            encode = getattr(self._encoder, f"encode_{name}", None)
            if encode is None:
                raise BadMessage(f"the codec {self._name} has no method encode_{name}")
            data: object = encode(*fields)
        except BadMessage:
            raise
        except Exception as error:  # the code may be the user's
            raise BadMessage(f"{self._name}: {name}: {type(error).__name__}: {error}") from error
        if isinstance(data, str):
            data = data.encode()  # as Frontera's JSON encoder returns it
        if not isinstance(data, bytes):
            raise BadMessage(f"{self._name}: encode_{name} returned {type(data).__name__}; expected bytes or text")
        _check_size(data)
        return data

    def _decoded(self, decode: Callable[[], T], data: bytes) -> T:
        _check_size(data)
        try:
            return decode()
        except BadMessage:
            raise
        except Exception as error:  # a codec may be the user's, its result lazy, and the bytes anything
            raise BadMessage(f"{self._name}: {type(error).__name__}: {error}"[:500]) from error


def _check_size(data: bytes) -> None:
    if len(data) > MAX_SIZE:
        raise BadMessage(f"a message of {len(data)} bytes; the limit is {MAX_SIZE}")
