"""The RPCs of the service, each with its path and the classes of its messages, read from the descriptor.

gRPC's generated stubs are not needed: a handler is made from a row of this table.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from budgetfrontier.server.urlfrontier.urlfrontier_pb2 import DESCRIPTOR

_SERVICE = DESCRIPTOR.services_by_name["URLFrontier"]

SERVICE: Final[str] = _SERVICE.full_name
"""The full name of the service, which health checks and reflection use too."""


class UrlFrontierMethod(NamedTuple):
    """An RPC of the service."""

    name: str
    request: type[Message]
    reply: type[Message]
    streams_requests: bool
    streams_replies: bool

    @property
    def path(self) -> str:
        """The path of the RPC in HTTP/2."""
        return f"/{SERVICE}/{self.name}"


def _method(described: MethodDescriptor) -> UrlFrontierMethod:
    return UrlFrontierMethod(
        described.name,
        GetMessageClass(described.input_type),
        GetMessageClass(described.output_type),
        described.client_streaming,
        described.server_streaming,
    )


METHODS: Final[dict[str, UrlFrontierMethod]] = {described.name: _method(described) for described in _SERVICE.methods}
"""All RPCs by name, in the order of the definition."""
