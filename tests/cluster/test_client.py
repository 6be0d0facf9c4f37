"""The client of a crawl in partitions."""

from __future__ import annotations

from budgetfrontier.cluster.kafka import Place, place, place_of


def test_a_crawl_has_its_name_whatever_is_in_it() -> None:
    assert place_of("a?b%41", "h:1,i:2?x=y") == Place("h:1,i:2", "a?b%41", {"x": "y"})
    assert place("kafka://h:1,i:2/a%3Fb%2541?x=y") == place_of("a?b%41", "h:1,i:2?x=y")
