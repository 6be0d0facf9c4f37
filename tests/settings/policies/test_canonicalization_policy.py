"""A canonicalization policy of one's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from budgetfrontier import Admission, CrawlUri, Frontier, Reader, Settings, SettingsError
from budgetfrontier.errors import PolicyError


def lower(href: str) -> str:
    """A site whose paths do not tell upper from lower case."""
    return href.lower()


def nothing(href: str) -> str:
    """A policy that is wrong."""
    return ""


def own(name: str) -> Settings:
    return Settings.from_dict({"frontier": {"canonicalization_policy": f"{__name__}:{name}"}})


def test_it_decides_what_is_a_duplicate(tmp_path: Path) -> None:
    with Frontier.open(tmp_path / "f", own("lower")) as frontier:
        assert frontier.schedule("http://a.test/Page") is Admission.ADDED
        assert frontier.schedule("http://a.test/PAGE") is Admission.DUPLICATE
        assert frontier.schedule("http://a.test/page?utm_source=x") is Admission.ADDED
        assert frontier.schedule(CrawlUri("http://a.test/Page", method="POST", body=b"x")) is Admission.ADDED
        assert frontier.lease(1)[0].uri.url == "http://a.test/Page"
    with Reader(tmp_path / "f") as reader:
        assert reader.find("http://a.test/pAGE")["seen"] is True


def test_a_frontier_keeps_to_the_policy_it_began_with(tmp_path: Path) -> None:
    Frontier.open(tmp_path / "f", own("lower")).close()
    with pytest.raises(SettingsError, match=r'set it as it was \(frontier.canonicalization_policy: ".*:lower"\)'):
        Frontier.open(tmp_path / "f", Settings())
    Frontier.open(tmp_path / "f", own("lower")).close()


def test_one_that_gives_no_url_is_named() -> None:
    with Frontier.open(":memory:", own("nothing")) as frontier, pytest.raises(PolicyError, match="returned '' for"):
        frontier.schedule("http://a.test/")
