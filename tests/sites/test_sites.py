"""The documentation of git: all that wget finds is found and archived, nothing twice. `make sites` takes more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sites.comparing import compare, different
from tests.sites.serving import DOMAIN, installed


def test_all_that_wget_finds(tmp_path: Path) -> None:
    try:
        sets = installed("git")
    except LookupError as e:
        pytest.skip(str(e))
    wget, ours = compare(tmp_path, sets)
    assert wget.good - ours.good == set()
    assert ours.twice == []
    assert different(wget, ours) == []
    assert {url.partition("/")[0] for url in ours.good} == {DOMAIN, *(one.host for one in sets)}
