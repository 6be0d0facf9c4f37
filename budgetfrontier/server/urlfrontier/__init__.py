"""The interface of URLFrontier 2.6 (crawler-commons) over gRPC (the extra "grpc").

`urlfrontier.proto` defines the service and its messages; `urlfrontier_pb2` is generated from it, and `methods` lists
the RPCs with the classes of their messages.
"""

from __future__ import annotations

from budgetfrontier.errors import MissingExtra

try:
    import google.protobuf as _protobuf  # noqa: F401
    import grpc as _grpc  # noqa: F401
except ModuleNotFoundError as error:
    raise MissingExtra("grpc") from error
