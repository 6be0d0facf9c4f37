"""The Java clients of the service's tests."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial

import pytest

from tests.installed import NotInstalled
from tests.server.urlfrontier.java_client import VERSIONS, JavaClient, classpath, connected

Connect = Callable[[str], AbstractContextManager[JavaClient]]


@pytest.fixture(scope="session", params=VERSIONS)
def java(request: pytest.FixtureRequest) -> Iterator[Connect]:
    """Yield a function that connects a client of a version of the published jars to an address.

    Where Java, Maven or the network is missing, the tests are skipped; in CI they fail.
    """
    try:
        classpath(request.param)
    except NotInstalled as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"URLFrontier's Java API {request.param} was NOT tested: {error}")
    yield partial(connected, request.param)
