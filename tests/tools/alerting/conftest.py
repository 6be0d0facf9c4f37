"""What alerts are sent to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.tools.alerting.receivers import Hook, served


@pytest.fixture
def hook() -> Iterator[Hook]:
    hook = Hook()
    with served(hook):
        yield hook
