"""The RPCs of the service."""

from __future__ import annotations

from budgetfrontier.server.urlfrontier.methods import METHODS
from budgetfrontier.server.urlfrontier.urlfrontier_pb2 import AckMessage, GetParams, URLInfo, URLItem


def test_all_rpcs_with_their_messages() -> None:
    assert len(METHODS) == 19
    assert METHODS["PutURLs"] == ("PutURLs", URLItem, AckMessage, True, True)
    assert METHODS["GetURLs"] == ("GetURLs", GetParams, URLInfo, False, True)
    assert [method.name for method in METHODS.values() if method.streams_requests] == ["PutURLs", "PutDiscovered"]
    streamed = [method.name for method in METHODS.values() if method.streams_replies]
    assert streamed == ["GetURLs", "PutURLs", "PutDiscovered", "ListURLs"]


def test_the_path_of_an_rpc() -> None:
    assert METHODS["GetStats"].path == "/urlfrontier.URLFrontier/GetStats"
