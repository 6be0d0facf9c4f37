"""What is wrong with `alerts` is told with its place."""

from __future__ import annotations

import os
from typing import Any

import pytest

from budgetfrontier.errors import SettingsError
from budgetfrontier.settings import Settings
from budgetfrontier.settings.loader import load
from budgetfrontier.settings.schema import AlertSink
from tests.settings.files import Files

NO_KIND = "alerts.sinks[0]: expected one of webhook, command and mail, and that it is not empty"


@pytest.mark.parametrize(
    ("sink", "problem"),
    [
        ({}, NO_KIND),
        ({"name": "a", "command": []}, NO_KIND),
        ({"mail": []}, NO_KIND),
        (
            {"webhook": "https://x.test/", "mail": "a@x.test"},
            "alerts.sinks[0]: expected one of webhook, command and mail, got webhook and mail; write an entry for each",
        ),
        ("https://x.test/", "alerts.sinks[0]: expected {webhook}, {command} or {mail, sender, server}, got"),
        ({"webhook": "x.test"}, 'alerts.sinks[0].webhook: expected an http or https URL, got "x.test"'),
        ({"webhook": "http://x y/"}, 'alerts.sinks[0].webhook: expected an http or https URL, got "http://x y/"'),
        ({"command": "echo x"}, 'alerts.sinks[0].command: no shell reads this: write a list, ["echo", "x"]'),
        ({"command": "true", "secret": "x"}, "alerts.sinks[0].secret: this is for webhook, not for command"),
        ({"mail": "a@x.test"}, "alerts.sinks[0]: mail needs a sender"),
        ({"mail": "a", "sender": "b"}, 'alerts.sinks[0].mail[0]: expected an address, got "a"'),
        ({"mail": "a@b", "sender": "b", "server": "x"}, 'alerts.sinks[0].server: expected HOST:PORT, got "x"'),
        ({"command": "true", "only": "ended"}, "alerts.sinks[0].only: expected a list of conditions: finished,"),
        ({"comand": "true"}, 'alerts.sinks[0]: unknown key "comand"; did you mean "command"?'),
    ],
)
def test_a_wrong_sink(sink: Any, problem: str) -> None:
    with pytest.raises(SettingsError) as raised:
        Settings.from_dict({"alerts": {"sinks": [sink]}})
    assert raised.value.problems[0].startswith(problem)


@pytest.mark.parametrize("name", ["timeout", "webhook", "only"])
def test_a_key_of_a_sink_beside_the_sinks_is_told_where_it_belongs(name: str) -> None:
    with pytest.raises(SettingsError) as raised:
        Settings.from_dict({"alerts": {name: "3s"}})
    assert raised.value.problems == [f'alerts: "{name}" belongs to an entry of alerts.sinks']


@pytest.mark.parametrize("named", [{"hook": "http://x.test/"}, {"chat": {"webhook": "http://x.test/"}, "b": {}}])
@pytest.mark.parametrize("section", ["sinks", "groups"])
def test_a_map_of_names_in_the_place_of_a_list_is_told(section: str, named: dict[str, Any]) -> None:
    with pytest.raises(SettingsError) as raised:
        Settings.from_dict({"alerts": {"sinks": named}} if section == "sinks" else {"groups": named})
    told = ": this is read as one item of a list, not as items with names: write a `-` before each"
    assert raised.value.problems[-1].endswith(f"{section}{told}")
    with pytest.raises(SettingsError) as raised:
        Settings.from_dict({"alerts": {"sinks": {"webhook": "http://x.test/", "ony": "finished"}}})
    assert not raised.value.problems[-1].endswith(told)


@pytest.mark.parametrize("score", [0.3, 1.1])
def test_a_score_that_no_trap_has(score: float) -> None:
    with pytest.raises(SettingsError, match=r"alerts\.trap: expected a number of 0\.5 to 1"):
        Settings.from_dict({"alerts": {"trap": score}})


def test_sinks_of_one_name(files: Files) -> None:
    files.path.write_text("alerts:\n  sinks:\n  - {command: a}\n  - {command: b}\n  - {name: c, command: b}\n")
    with pytest.raises(SettingsError) as raised:
        load(files.path, Settings())
    assert raised.value.problems == [
        f'{files.path}:4:5: alerts.sinks[1]: a sink before this one is called "command" too: give each a name'
    ]


def test_variables_are_set_for_a_crawl(files: Files) -> None:
    files.path.write_text("alerts: {sinks: [{webhook: 'https://x.test/${A_PATH}', secret: '${A_KEY}'}]}\n")
    assert load(files.path, Settings())[0].alerts.sinks[0].secret == "${A_KEY}"
    with pytest.raises(SettingsError) as raised:
        load(files.path, Settings(), environment={**os.environ, "A_PATH": "x"})
    assert raised.value.problems == [
        f"{files.path}:1:64: alerts.sinks[0].secret: the environment variable A_KEY is not set"
    ]


def test_a_sink_in_full_survives_a_round_trip() -> None:
    sink = {"mail": ["a@x.test"], "sender": "b@x.test", "server": "[::1]:25", "only": ["paused"], "timeout": "1m"}
    settings = Settings.from_dict({"alerts": {"sinks": [sink], "no_process": None}})
    assert settings.alerts.sinks == (
        AlertSink(mail=("a@x.test",), sender="b@x.test", server="[::1]:25", only=("paused",), timeout=60.0),
    )
    assert Settings.from_dict(settings.to_dict()) == settings and settings.alerts.no_process is None
