"""The generated clients: as the sources are from which `make sync` makes them."""

from __future__ import annotations

import pytest

from tests.remote.generate import FILES, PACKAGE, synchronous


@pytest.mark.parametrize("source", FILES)
def test_the_synchronous_client_is_made_from_the_one_for_asyncio(source: str) -> None:
    assert (PACKAGE / FILES[source]).read_text(encoding="utf-8") == synchronous(source), "run `make sync`"
