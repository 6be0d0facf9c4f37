"""Addresses: how they are written, and which of them need a token."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from budgetfrontier.core.endpoints.addresses import HostPort, brokers, check_reach, is_loopback, parsed
from budgetfrontier.errors import FrontierError, WrongAddress
from budgetfrontier.tools.cli import main


def test_the_parts_of_an_address() -> None:
    assert parsed("127.0.0.1:7071") == HostPort("127.0.0.1", 7071)
    assert parsed("[::1]:80") == ("::1", 80) and parsed("unix:/run/x") == Path("/run/x")
    assert parsed("a.test:0", any_port=True).port == 0  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "text", ["8089", "127.0.0.1:x", "127.0.0.1:99999", ":7071", ":::0", "unix:", "a.test:0", "a.test:1\n", "http://a:1"]
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(FrontierError, match="give HOST:PORT"):
        parsed(text)


@pytest.mark.parametrize("text", ["h", "h:9092", " a:1, b:65535", "SASL_SSL://h:1,[::1]:9092", "a_b.test:1"])
def test_brokers_are_kept_as_they_are_written(text: str) -> None:
    assert brokers(text) == text


@pytest.mark.parametrize("text", ["", ",", "h:", "h:x", "h:0", "h:65536", "h:99999", "a:1,,b:1", "u@h", "[h", "h/c"])
def test_what_is_no_broker(text: str) -> None:
    with pytest.raises(WrongAddress, match="is no broker of Kafka: give HOST:PORT"):
        brokers(text)


@pytest.mark.parametrize(
    ("host", "expected"), [("127.0.0.2", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("a", False)]
)
def test_which_hosts_this_machine_alone_reaches(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_what_others_reach_needs_a_token_or_a_word() -> None:
    def check(host: HostPort | Path, *, protected: bool = False, anybody: bool = False) -> None:
        check_reach(host, option="--listen", protected=protected, anybody=anybody, remedy="give a token, ")

    everywhere = HostPort("0.0.0.0", 1)
    check(HostPort("::1", 1))
    check(Path("/run/x"))
    check(everywhere, protected=True)
    check(everywhere, anybody=True)
    with pytest.raises(FrontierError, match=r"reach 0\.0\.0\.0.*give a token, listen on .*--allow-anybody"):
        check(everywhere)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "crawl.yaml"
    path.write_text("crawl: x\nfetch: {user_agent: 'x (+http://x.test/)'}\ncluster: {kafka: nowhere:1}\n")
    return path


COMMANDS: dict[str, Callable[[Path, Path], list[str | Path]]] = {
    "serve": lambda jobs, config: ["serve", jobs, "--listen", "0.0.0.0:0"],
    "serve, metrics": lambda jobs, config: ["serve", jobs, "--listen", "127.0.0.1:0", "--metrics", "0.0.0.0:0"],
    "worker": lambda jobs, config: ["worker", "--config", config, "--folder", jobs, "--listen", "192.0.2.1:0"],
    "console": lambda jobs, config: ["console", jobs, "--listen", "0.0.0.0:0"],
    "crawl, metrics": lambda jobs, config: ["crawl", config, "--job", jobs, "--metrics", "0.0.0.0:0"],
    "bus-broker": lambda jobs, config: ["bus-broker", jobs.with_name("journal"), "--listen", "tcp://0.0.0.0:*"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_that_listens_refuses_an_open_address(
    name: str, tmp_path: Path, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = tmp_path / "jobs"
    if name == "console":
        (jobs / "frontier").mkdir(parents=True)
        (jobs / "frontier" / "data.mdb").touch()
    assert main([str(word) for word in COMMANDS[name](jobs, config)]) == 1
    said = capsys.readouterr().err
    assert "other machines reach " in said and "--allow-anybody" in said
