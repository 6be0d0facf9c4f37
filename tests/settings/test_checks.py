"""Checks of single values: addresses, seeds, files."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier.errors import SettingsError
from budgetfrontier.settings import Settings
from budgetfrontier.settings.overrides import validate_override
from tests.settings.files import Files, problems


@pytest.mark.parametrize("address", ["127.0.0.1", "localhost:80", "127.0.0.1:0", "127.0.0.1:70000", "::1:80", 80, None])
def test_resolve_takes_addresses_with_a_port(address: Any) -> None:
    assert problems({"fetch": {"resolve": {"*.test": address}}})[0].startswith(
        'fetch.resolve.*.test: expected "ip:port"'
    )
    assert Settings.from_dict({"fetch": {"resolve": {"A.test": "[::1]:80"}}}).fetch.resolve == {"a.test": "[::1]:80"}


@pytest.mark.parametrize(
    ("seed", "problem"),
    [
        ("example.org", '1:9: seeds[0]: "example.org" has no scheme; did you mean "https://example.org"?'),
        ("localhost:8000", '1:9: seeds[0]: "localhost:8000" has no scheme; did you mean "https://localhost:8000"?'),
        ("{url: no such}", '1:15: seeds[0].url: "no such" cannot be crawled: scheme: none'),
        ("ftp://a.test/", '1:9: seeds[0]: "ftp://a.test/" cannot be crawled: scheme: ftp'),
    ],
)
def test_seeds_that_are_no_urls_have_a_position(files: Files, seed: str, problem: str) -> None:
    assert files.problems(f"seeds: [{seed}]") == [problem]


def test_a_missing_file_is_a_problem_of_its_own(files: Files, tmp_path: Path) -> None:
    missing = tmp_path / "none.txt"
    assert files.problems("seeds:\n  - {file: none.txt}\nfrontier:\n  suffix_list: none.txt\n") == [
        f'2:12: seeds[0].file: there is no file "{missing}"',
        f'4:16: frontier.suffix_list: there is no file "{missing}"',
    ]


def test_what_is_no_file_of_text_is_said_to_be_what_it_is(files: Files, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "seeds.gz").write_bytes(gzip.compress(b"http://a.test/"))
    names = ("folder", "pipe", "seeds.gz")
    found = files.problems("seeds:\n" + "".join(f"  - {{file: {name}}}\n" for name in names))
    words = ("is a folder; give a file", "is a pipe or a device", "is compressed; decompress it with gunzip")
    assert len(found) == 3
    for problem, name, said in zip(found, names, words, strict=True):
        assert f'file: "{tmp_path / name}" {said}' in problem


@pytest.mark.parametrize(
    "snapshots",
    [
        "/mnt/snapshots",
        "file:snapshots",
        "file://host/folder",
        "ftp://host/x",
        "s3://",
        "s3://key:secret@bucket/x",
        "s3://b/x?y",
    ],
)
def test_a_store_of_snapshots_is_a_url_without_credentials(snapshots: str) -> None:
    [found] = problems({"cluster": {"snapshots": snapshots}})
    assert found.startswith("cluster.snapshots: expected file:///FOLDER, s3://BUCKET/PREFIX") and snapshots in found


@pytest.mark.parametrize(
    "snapshots", ["file:///mnt/snap%20shots", "s3://bucket", "gs://bucket/a/b", "az://container/a"]
)
def test_snapshots_in_a_folder_or_an_object_store_are_taken(snapshots: str) -> None:
    assert Settings.from_dict({"cluster": {"snapshots": snapshots}}).cluster.snapshots == snapshots


@pytest.mark.parametrize(
    "kafka",
    ["kafka://host:9092", "host:9092/crawl", "host:port", "?acks=all", "a,,b", ":9092", "host:99999", "h?a=b c"],
)
def test_brokers_that_would_be_waited_for_without_end(kafka: str) -> None:
    [found] = problems({"cluster": {"kafka": kafka}})
    assert found.startswith("cluster.kafka: expected HOST:PORT,... without kafka://") and kafka in found


def test_brokers_may_have_properties() -> None:
    for kafka in ("host", "a.b:9092, [::1]:9092,SSL://c:1", "h:9092?ssl.ca.location=/etc/x&group.protocol=consumer"):
        assert Settings.from_dict({"cluster": {"kafka": kafka}}).cluster.kafka == kafka


@pytest.mark.parametrize("name", ["my crawl", "a/b", "caf\u00e9", "x" * 241])
def test_the_name_of_a_crawl_in_partitions_can_be_in_those_of_topics(name: str) -> None:
    brokers = {"kafka": "broker1:9092"}
    [found] = problems({"crawl": name, "cluster": brokers})
    assert found.startswith('crawl: "') and "cannot name the topics of a crawl in partitions" in found
    assert Settings.from_dict({"crawl": name}).crawl == name
    assert Settings.from_dict({"crawl": "x" * 240, "cluster": brokers}).cluster.partitions == 16


def test_labels_have_no_quota_in_partitions() -> None:
    data: dict[str, Any] = {
        "frontier": {"quotas": {"label": {"urls": 5}}},
        "overrides": [
            {"match": "*", "set": {"quotas.host": {"urls": 1}}},
            {"match": "*", "set": {"quotas": {"label": {"bytes": "1GB"}}}},
        ],
    }
    assert Settings.from_dict(data).frontier.quotas.label == {"urls": 5}
    found = problems(data | {"cluster": {"kafka": "broker:9092"}})
    assert [text.partition(": ")[0] for text in found] == ["frontier.quotas.label", "overrides[1].set"]
    assert all("the URIs with a label are in all of them" in text for text in found)


@pytest.mark.parametrize(
    ("quota", "told"),
    [
        (5, "frontier.quotas.host: expected a mapping such as {successes: 1000, bytes: 1GB}, got 5"),
        ({"sucesses": 5}, 'frontier.quotas.host: unknown amount "sucesses"; did you mean "successes"?'),
        ({"x": 5}, 'unknown amount "x"; known here: successes, errors, urls, novel, success_bytes, error_bytes, bytes'),
        ({"urls": -1}, "frontier.quotas.host.urls: expected a whole number of at least 0, got -1"),
        ({"urls": 1.5}, "frontier.quotas.host.urls: expected a whole number of at least 0, got 1.5"),
        ({"bytes": "much"}, "frontier.quotas.host.bytes: expected a size (bytes, or such as 64KiB"),
        ({"novel_bytes": 1, "novel-bytes": 2}, "this sets novel_bytes a second time"),
    ],
)
def test_a_quota_that_cannot_be_read(quota: Any, told: str) -> None:
    [found] = problems({"frontier": {"quotas": {"host": quota}}})
    assert told in found
    with pytest.raises(SettingsError):
        validate_override("*", {"quotas.host": quota})


def test_amounts_of_a_quota_are_read_in_each_spelling() -> None:
    quotas = {"host": {"success-bytes": "2KiB", "urls": 3}, "queue": None, "force-retire": False}
    found = Settings.from_dict({"frontier": {"quotas": quotas}}).frontier.quotas
    assert (found.host, found.queue, found.force_retire) == ({"success_bytes": 2048, "urls": 3}, {}, False)
