"""Every transport keeps the rules of the bus."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.bus.conformance import CHECKS, Transport
from tests.tools.importers.redis.server import needs_server


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
@pytest.mark.parametrize("name", ["memory", "zmq", pytest.param("redis", marks=needs_server), "kafka"])
def test_conformance(name: str, check: Callable[[Transport], None], request: pytest.FixtureRequest) -> None:
    check(request.getfixturevalue(f"{name}_transport"))
