"""The partition of a URL: one for each queue, and one for all URLs that are duplicates of each other."""

from __future__ import annotations

from random import Random

import pytest

from budgetfrontier import CrawlUri, Settings
from budgetfrontier.cluster.partitions.routing import Router, partition_of_queue
from budgetfrontier.core import uris
from budgetfrontier.errors import InvalidUrl, SettingsError
from budgetfrontier.settings import policy_factory

PARTITIONS = 64
HOSTS = [
    "a.test", "www.a.test", "www2.a.test", "www.b.test:8080", "b.test:8080", "WWW.c.co.uk", "c.co.uk", "www.test",
    "127.0.0.1", "[::1]:81", "bücher.test", "www.bücher.test", "xn--bcher-kva.test", "user:secret@www.d.test",
    "d.test.", "wwww.a.test", "www.www.a.test", "h",
]  # fmt: skip


AT_RANDOM = {"parallel_queues": 8, "parallel_queues_random_assignment": True}


def test_moves_to_other_queues_are_refused() -> None:
    settings = {"frontier": {"defer_to_previous": False}}
    with pytest.raises(SettingsError, match=r"frontier\.defer_to_previous: a crawl in partitions needs true"):
        Router(Settings.from_dict(settings), PARTITIONS)
    with pytest.raises(SettingsError, match=r"frontier\.defer_to_previous: a crawl in partitions needs true"):
        Settings.from_dict(settings | {"crawl": "news", "cluster": {"kafka": "localhost:9092"}})


def test_files_of_precedences_are_refused() -> None:
    policy = {"uri_precedence_policy": {"preloaded": {"file": "list.txt"}}}
    for settings in {"frontier": policy}, {"overrides": [{"match": "*", "set": policy}]}, {"sheets": {"x": policy}}:
        with pytest.raises(SettingsError, match="cannot have the policy preloaded"):
            Router(Settings.from_dict(settings), PARTITIONS)


@pytest.mark.parametrize("policy", ["ip", "bucket"])
def test_keys_that_depend_on_addresses_are_refused(policy: str) -> None:
    settings = {"frontier": {"queue_assignment_policy": policy}}
    with pytest.raises(SettingsError, match="determines its partition: use another queue assignment"):
        Router(Settings.from_dict(settings), PARTITIONS)
    with pytest.raises(SettingsError, match=r"frontier\.queue_assignment_policy: a crawl in partitions needs"):
        Settings.from_dict(settings | {"crawl": "news", "cluster": {"kafka": "localhost:9092"}})


@pytest.mark.parametrize(
    "policy",
    [
        "hostname",
        "surt-authority",
        "registered-domain",
        "topmost-assigned-surt",
        {"hostname": {"limit": 2}},
        {"surt-authority": {"limit": 3}},
        {"hostname": {"parallel_queues": 8}},
        {"hostname": AT_RANDOM},
        {"surt-authority": AT_RANDOM},
        {"topmost-assigned-surt": AT_RANDOM},
    ],
    ids=str,
)
def test_a_queue_and_duplicates_are_in_one_partition(policy: str | dict[str, object]) -> None:
    settings = Settings.from_dict({"frontier": {"queue_assignment_policy": policy}})
    assign = policy_factory.assignment(settings.frontier, None)
    canonical = policy_factory.canonicalization(settings.frontier)
    chance = Random(str(policy))
    router = Router(settings, PARTITIONS)
    by_form: dict[str, int] = {}
    for _ in range(5000):
        slashes = chance.choice(["//"] * 6 + ["/", "///", "////", "/////", "\\\\", "/\\/"])
        path = chance.choice(["", "/", "/x", "/x?y", "//x", "?q", "#f", "/a:b@c/", "/x/y", "/%78/y"])
        space = chance.choice(["", "", "", " ", "\t"])
        url = f"{space}{chance.choice(['http', 'https', 'HTTPS'])}:{slashes}{chance.choice(HOSTS)}{path}"
        try:
            href = uris.parse(url)
        except InvalidUrl:
            continue
        number = router.partition(url)
        assert number == partition_of_queue(assign(CrawlUri(href)), PARTITIONS), url
        assert by_form.setdefault(canonical(href), number) == number, url
    assert len(set(by_form.values())) > 5
