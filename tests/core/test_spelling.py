"""What is suggested for misspelt names and values, wherever a message refuses one that it does not know."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from multidict import MultiDict

from budgetfrontier.bus.connect import connect
from budgetfrontier.core.endpoints import redis_url
from budgetfrontier.core.spelling import LONGEST, did_you_mean, nearest
from budgetfrontier.engine.commands.operations import check_command
from budgetfrontier.errors import FrontierError
from budgetfrontier.settings import plugins
from budgetfrontier.settings.field import Field, fields
from budgetfrontier.settings.matching import parse_match
from budgetfrontier.settings.settings import Settings
from budgetfrontier.settings.values import Type
from budgetfrontier.tools.console import forms
from budgetfrontier.tools.console.query import BadRequest, Query
from budgetfrontier.tools.importers.lists import from_json


def types(section: type[msgspec.Struct]) -> Iterator[Type]:
    """The types of all settings below a section."""
    for field in fields(section).values():
        if not isinstance(field, Field):
            yield from types(field)
        elif isinstance(field.type, Type):
            yield field.type


def reads(of: Type, option: str) -> bool:
    try:
        return bool(of.read(option) == option)
    except ValueError:
        return False


def test_each_value_of_a_few_is_suggested_for_a_misspelt_one() -> None:
    few = [of for of in types(Settings) if not reads(of, "none of these")]
    choices = [(of, option) for of in few for option in of.text.split(" or ") if reads(of, option)]
    choices = [(of, option) for of, option in choices if option != "null"]
    assert {"exceeded", "lifo", "uri", "jsonl", "skip", "ignore"} <= {option for _, option in choices}
    for of, option in choices:
        for wrong in (option[:-2] + option[-1], f"{option}s", option.upper()):
            with pytest.raises(ValueError, match=f'did you mean "{option}"'):
                of.read(wrong)
        with pytest.raises(ValueError, match=r"^[^;]*$"):
            of.read(7)


def refused(call: Callable[[], object]) -> str:
    with pytest.raises((FrontierError, ValueError, BadRequest)) as error:
        call()
    return str(error.value)


@pytest.mark.parametrize(
    ("call", "meant"),
    [
        (lambda: parse_match("domian:example.org"), '"domain:example.org"'),
        (lambda: plugins.resolve("cost", "anti-calender"), "anti-calendar"),
        (lambda: plugins.resolve("cost", {"additive": {"rule": []}}), "rules"),
        (lambda: plugins.resolve("cost", {"additive": {"rules": [{"when": "dept", "add": 1}]}}), "depth"),
        (lambda: plugins.resolve("cost", {"additive": {"rules": [{"when": "depth", "ovr": 2, "add": 1}]}}), "over"),
        (lambda: check_command("snooze", {"queue": "a.test", "untli": 1.0}), "until"),
        (lambda: from_json(json.dumps({"url": "http://a.test/", "prioriti": 1}).encode()), "priority"),
        (lambda: from_json(json.dumps({"url": "http://a.test/", "directive": "highst"}).encode()), "HIGHEST"),
        (lambda: redis_url.read("rediss://a.test/?ssl_ca_cert=x"), "ssl_ca_certs"),
        (lambda: connect("kafak://127.0.0.1:9092"), "kafka"),
        (lambda: Query({"fate": "FAILD"}).choice("fate", ("FAILED", "DEAD")), "FAILED"),
        (lambda: forms.read(MultiDict({"op": "retier", "reason": "x"})), "retire"),
        (lambda: forms.read(MultiDict({"op": "snooze", "reason": "x", "queu": "x"})), "queue"),
    ],
)
def test_what_is_refused_is_followed_by_what_was_meant(call: Callable[[], Any], meant: str) -> None:
    assert f"did you mean {meant}?" in refused(call)


def test_nothing_is_suggested_for_what_is_not_alike() -> None:
    assert nearest("zzz", ["READY", "RETIRED"]) == did_you_mean("zzz", ["READY"]) == ""
    assert nearest("A" * (LONGEST + 1), ["A" * LONGEST]) == nearest(7, [7]) == ""
    assert did_you_mean("retierd", ["READY", "RETIRED"]) == "; did you mean RETIRED?"
    assert did_you_mean("retierd", ["READY", "RETIRED"], quote='"') == '; did you mean "RETIRED"?'


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("pauze", "pause"), ("resme", "resume"), ("buget", "budget"), ("queus", "queues"), ("hostname_", "hostname"),
        ("aply", "apply"), ("limt", "limit"), ("quees", "queues"), ("Report", "report"), ("hop", "hops"), ("ui", "uri"),
        ("delya", "delay"), ("canonicalisatio", "canonicalization"), ("xueue", "queue"),
    ],
)  # fmt: skip
def test_one_or_two_wrong_letters_are_understood(wrong: str, meant: str) -> None:
    assert nearest(wrong, ["something", meant, "else"]) == meant


@pytest.mark.parametrize(
    ("other", "name"),
    [
        ("restore", "resume"), ("retry", "retire"), ("daemon", "demo"), ("wait", "wake"), ("rate", "date"),
        ("max_seconds", "max_spend"), ("max_hosts", "max_hops"), ("max_hours", "max_uris"), ("max_speed", "min_speed"),
        ("follow", "nofollow"), ("path", "depth"), ("site", "size"), ("text", "ext"), ("codes", "scope"),
        ("pages", "max_uris"),
    ],
)  # fmt: skip
def test_another_word_is_not_taken_for_a_name(other: str, name: str) -> None:
    assert nearest(other, [name]) == ""


def test_a_letter_is_rather_missing_than_wrong() -> None:
    assert nearest("queus", ["queue", "queues"]) == "queues"
