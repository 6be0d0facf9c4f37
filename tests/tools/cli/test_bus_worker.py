"""The command `bus-worker`: what it refuses, what it says, and how it ends."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import Frontier, Reader, Settings
from budgetfrontier.bus.codecs.codec import Codec
from budgetfrontier.bus.connect import DEFAULT, connect, shown
from budgetfrontier.bus.memory import MemoryBroker
from budgetfrontier.bus.messages import Request, UpdateScore
from budgetfrontier.bus.patience import Patience
from budgetfrontier.bus.streams import SPIDERS, streams
from budgetfrontier.bus.workers.database import DatabaseWorker
from budgetfrontier.errors import WrongAddress
from budgetfrontier.rules.run_history import BUS_WORKER, CRAWL
from budgetfrontier.tools.cli import build_parser, bus_worker, main
from budgetfrontier.tools.cli.bus_worker import BUS
from tests.bus.conftest import zeromq_broker
from tests.support import PATIENCE, until

STRATEGY = ["bus-worker", "--role", "strategy", "--bus", "zmq+ipc:///nowhere"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["bus-worker", "--role", "db"], 2, "JOB is the folder of a database worker"),
        ([*STRATEGY, "job"], 2, "a strategy worker has none"),
        ([*STRATEGY, "--batch", "0"], 2, "0 is less than 1"),
        ([*STRATEGY, "--batch", "x"], 2, 'expected a whole number, got "x"'),
        ([*STRATEGY, "--partition", "1"], 4, "--spider-log-partitions is 1"),
        ([*STRATEGY, "--codec", "no.such"], 4, "no.such"),
        ([*STRATEGY, "--strategy", "no:such"], 4, "no:such cannot be imported"),
        ([*STRATEGY, "-a", "no=such"], 4, "BreadthFirst cannot be made: TypeError"),
        ([*STRATEGY, "--strategy", "json:dumps", "-a", "x=y"], 4, "json:dumps is no class"),
        (["bus-worker", "--role", "strategy", "--bus", "mqtt://x"], 2, "'mqtt' is no transport"),
        (["bus-worker", "--role", "strategy", "--bus", "kafka:///crawl"], 2, "names no brokers"),
        (
            ["bus-worker", "--role", "strategy", "--bus", "kafka://h:1?partition.assignment.strategy=range"],
            2,
            "cooperative-sticky alone; leave the property out",
        ),
    ],
)
def test_it_refuses(arguments: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == code
    assert message in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("redis://:sec/ret@host", "the host or port is invalid"),
        ("redis://:secret@host/0?nosuch=1", "1 unknown option; known: db"),
        ("redis://host?decode_responses=true", "1 unknown option; known: db"),
        ("redis://host?ssl_cert_reqs=none", "1 unknown option; known: db"),
        ("redis://host/news", "not the number of a database"),
        ("redis://host/1/2", "not the number of a database"),
        ("redis://host?db=", "not the number of a database"),
        ("unix://s?db=1", "the path of the socket is missing"),
    ],
)
def test_a_wrong_url_of_redis_is_refused_before_it_is_used(url: str, told: str) -> None:
    """As `import` refuses it: redis-py would take database 0 for some of these, which two crawls would share."""
    with pytest.raises(WrongAddress, match=told) as refused:
        connect(url).close()
    assert "; expected redis://[USER" in str(refused.value) and "sec" not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "zmq+tcp://127.0.0.1:99999", "zmq+tcp://127.0.0.1:0", "zmq+tcp://127.0.0.1:x", "zmq+tcp://nowhere",
        "kafka://h:99999", "kafka://h:x", "kafka://h:0", "kafka://h:1,", "kafka://[h", "kafka://user@h:1", "mqtt://x",
    ],
)  # fmt: skip
def test_an_address_that_is_none_is_refused_and_nothing_is_left_behind(
    tmp_path: Path, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(WrongAddress):
        connect(url)
    assert main(["bus-worker", str(tmp_path / "job"), "--role", "db", "--bus", url]) == 2
    assert "argument --bus: " in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_what_it_refuses_is_logged_as_json(caplog: pytest.LogCaptureFixture) -> None:
    assert main([*STRATEGY, "--partition", "1", "--log-format", "json"]) == 4
    assert caplog.records[-1].event == "failed"  # type: ignore[attr-defined]


def test_what_a_worker_of_partitions_refuses_is_logged_as_json(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "crawl.yaml").write_text("crawl: news\n")  # without `cluster.kafka`
    assert main(["worker", "--config", str(tmp_path / "crawl.yaml"), "--log-format", "json"]) == 1
    assert caplog.records[-1].event == "failed"  # type: ignore[attr-defined]


def test_a_frontier_in_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Frontier.open(tmp_path / "frontier"):
        assert main(["bus-worker", str(tmp_path), "--role", "db", "--bus", "zmq+ipc:///nowhere"]) == 5
    assert "open" in capsys.readouterr().err


def job_of_shop(folder: Path, program: str) -> None:
    """Make the job of a crawl, as a program leaves it that has handed out a URI; a database worker has a note there."""
    settings = Settings(crawl="shop")
    with Frontier.open(folder / "frontier", settings, program=program, keep_leases=True) as frontier:
        frontier.schedule("http://shop.test/")
        frontier.lease(1)
        if program == BUS_WORKER:
            bus, names = MemoryBroker(now=lambda: 1.0).bus(), streams(prefix="shop")
            producer = bus.producer(names.scoring_log)
            producer.send(Codec().encode(UpdateScore(Request("http://shop.test/2"), 1.0, True)))
            producer.flush()
            DatabaseWorker(frontier, bus, names, Codec()).step()


@pytest.mark.parametrize(
    ("program", "crawl", "arguments", "message"),
    [
        (BUS_WORKER, "news", ["--prefix", "shop"], "holds the crawl 'shop', and these settings are those of 'news'"),
        (BUS_WORKER, "shop", ["--prefix", "news"], "the stream shop-done, not those of news-done"),
        (BUS_WORKER, "shop", ["--prefix", "shop", "--spider-log-partitions", "2"], "start the worker with the options"),
        (CRAWL, "shop", [], "is the job of `budgetfrontier crawl`"),
    ],
)
def test_the_job_of_another_crawl_stays_as_it_is(
    program: str, crawl: str, arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job, config = tmp_path / "job", tmp_path / "crawl.yaml"
    job_of_shop(job, program)
    config.write_text(f"crawl: {crawl}\nfrontier: {{queue_total_budget: 7}}\n")
    worker = ["bus-worker", str(job), "--role", "db", "--bus", "zmq+ipc:///nowhere", "--config", str(config)]
    assert main([*worker, *arguments]) in (1, 4)
    assert message in " ".join(capsys.readouterr().err.split())
    with Reader(job / "frontier") as reader:
        assert reader.settings == Settings(crawl="shop") and reader.summary().in_process


def test_a_crawl_does_not_take_the_job_of_a_database_worker(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job_of_shop(tmp_path / "job", BUS_WORKER)
    (tmp_path / "crawl.yaml").write_text("crawl: shop\nseeds: [http://shop.test/]\n")
    assert main(["crawl", str(tmp_path / "crawl.yaml"), "--job", str(tmp_path / "job"), "--adopt"]) == 4
    assert "start its database worker again, with `budgetfrontier bus-worker" in capsys.readouterr().err.replace(
        "\n", " "
    )


def test_reports_name_the_command_that_starts_the_worker_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job_of_shop(tmp_path, BUS_WORKER)
    assert main(["report", str(tmp_path)]) == 0
    assert f"budgetfrontier bus-worker {tmp_path} --role db" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "noted"),
    [
        ([], []),
        (["--prefix", "shop", "--partition", "1", "--spider-log-partitions", "2"], ...),
        (["--bus", "redis://:secret@host/0"], ["--bus", "URL"]),
    ],
)
def test_the_options_of_a_worker_are_noted(given: list[str], noted: Any, tmp_path: Path) -> None:
    args = build_parser("bus-worker").parse_args(["bus-worker", str(tmp_path), "--role", "db", *given])
    found = bus_worker._options(args)
    assert sorted(found) == sorted(["--role", "db", *(given if noted is ... else noted)])


def test_the_bus_is_that_of_connect() -> None:
    assert BUS == DEFAULT


def test_a_signal_ends_the_patience_with_the_bus_and_a_second_one_the_worker() -> None:
    patience = Patience()
    stop = bus_worker._SignalStop(patience)
    assert not stop.wait(0.0)
    stop.ask("SIGINT")
    assert patience.stopped is not None and stop.wait(0.0)
    with pytest.raises(KeyboardInterrupt):
        stop.ask("SIGINT")


def test_passwords_are_not_shown() -> None:
    assert shown("redis://bob:secret@host/0") == "redis://bob:***@host/0"
    assert shown("kafka://host:9092?sasl.password=secret") == "kafka://host:9092"


CONFIG = """
crawl: bus
seeds: [http://a.test/]
frontier: {politeness: {min_delay: 0, delay_factor: 0}}
"""


def test_workers_wait_for_a_bus_and_end_at_a_signal(tmp_path: Path) -> None:
    """Both are started before the broker; a seed of the YAML comes to the feed."""
    (tmp_path / "crawl.yaml").write_text(CONFIG)
    address = f"ipc://{tmp_path}/socket"
    common = ["--bus", f"zmq+{address}", "--config", str(tmp_path / "crawl.yaml"), "--log-format", "json"]
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "budgetfrontier", "bus-worker", *role, *common], stderr=subprocess.PIPE, text=True
        )
        for role in (["--role", "strategy"], [str(tmp_path / "job"), "--role", "db"])
    ]
    try:
        with zeromq_broker(tmp_path / "journal", address=address), closing(connect(f"zmq+{address}")) as bus:
            feed = streams().spider_feed
            until(lambda: bus.lag(feed, SPIDERS) == [1], started[1])
            [received] = bus.consumer(feed, SPIDERS).poll(10, PATIENCE)
            assert Codec().decode_request(received.data).url == "http://a.test/"
            for process in started:
                process.send_signal(signal.SIGTERM)
            logs = [process.communicate(timeout=PATIENCE)[1] for process in started]
    finally:
        for process in started:
            process.kill()
    for process, log in zip(started, logs, strict=True):
        assert process.returncode == 0, log
        events = [json.loads(line).get("event") for line in log.splitlines()]
        assert events[0] == "started" and events[-1] == "stopped"
    with Frontier.open(tmp_path / "job" / "frontier", keep_leases=True) as frontier:
        assert frontier.summary().in_process == 1, "its lease stays"
