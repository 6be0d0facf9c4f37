"""Settings without their secrets: what is hidden, and that each setting of a free text is known as a secret or not."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from msgspec.structs import replace

from budgetfrontier import Settings
from budgetfrontier.settings.field import Field, fields
from budgetfrontier.settings.redaction import redacted
from budgetfrontier.settings.schema import AlertSink, GroupSettings, RequestSettings, Seed
from budgetfrontier.settings.values import TEXT, TEXTS, Type, optional

OPEN = {
    "crawl",
    "url",
    "source",
    "warc_operator",
    "warc_description",
    "mail",
    "sender",
    "server",
    "ignore_params",
    "keep_params",
}
"""The settings with a free text that is no secret."""
FREE = {one.text for one in (TEXT, TEXTS, optional(TEXT))} | {"texts"}

SECRET = "S3CRET"
SETTINGS: dict[str, Any] = {
    "seeds": [f"http://me:{SECRET}@a.test/"],
    "scope": {"reject": [f"regex:https://me:{SECRET}@a.test/x"]},
    "fetch": {
        "proxy": f"http://me:{SECRET}@proxy.test:3128",
        "requests": [
            {"headers": {"Authorization": f"Bearer {SECRET}"}, "cookies": {"session": SECRET}, "auth": f"me:{SECRET}"}
        ],
    },
    "alerts": {
        "sinks": [
            {"name": "chat", "webhook": f"https://me:{SECRET}@hooks.test/{SECRET}?key={SECRET}", "secret": SECRET},
            {"name": "file", "command": ["curl", "-H", f"Authorization: {SECRET}"]},
            {"name": "shell", "command": [f"/bin/curl -u me:{SECRET}"]},
            {"mail": ["ops@a.test"], "sender": "crawler@a.test", "login": f"crawler:{SECRET}"},
        ]
    },
    "cluster": {"kafka": f"broker.test:9092?sasl.password={SECRET}"},
}
"""Settings with a secret wherever there may be one."""


def test_no_secret_is_left() -> None:
    found = redacted(Settings.from_dict(SETTINGS)).to_dict()
    assert SECRET not in json.dumps(found)
    chat, file, shell, mail = found["alerts"]["sinks"]
    assert chat["webhook"] == "https://***@hooks.test/***" and file["command"] == ["curl", "***", "***"]
    assert shell["command"] == ["***"] and mail["login"] == "***" and mail["mail"] == ["ops@a.test"]
    assert re.fullmatch(r"http://(\w+:)?\*\*\*@proxy.test:3128", found["fetch"]["proxy"])
    assert found["fetch"]["requests"][0]["headers"] == {"Authorization": "***"}
    assert found["cluster"]["kafka"] == "broker.test:9092?***"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("webhook", "https://hooks.test/${PATH}"),
        ("webhook", "${URL}"),
        ("secret", "${KEY}"),
        ("webhook", "http://a.test"),
    ],
)
def test_the_names_of_variables_and_hosts_are_no_secrets(name: str, text: str) -> None:
    sink = replace(AlertSink(), **{name: text})
    assert redacted(sink) == sink


def test_settings_without_secrets_stay_as_they_are() -> None:
    plain = {"crawl": "news", "fetch": {"proxy": "http://proxy.test:3128"}, "cluster": {"kafka": "a.test:1,b.test:2"}}
    settings = Settings.from_dict(
        plain | {"seeds": ["http://a.test/@me?x=1"], "overrides": [{"match": "*", "set": {}}]}
    )
    assert redacted(settings) == settings


def test_each_setting_with_a_free_text_is_a_secret_or_is_known_not_to_be_one() -> None:
    found: dict[str, Field] = {}
    structs: list[Any] = [Settings, AlertSink, RequestSettings, Seed, GroupSettings]
    while structs:
        for name, field in fields(structs.pop()).items():
            if isinstance(field, Field):
                found[name] = field
            else:
                structs.append(field)
    free = {name for name, one in found.items() if (one.type.text if isinstance(one.type, Type) else one.type) in FREE}
    secrets = {name for name, one in found.items() if one.secret}
    assert free >= OPEN and free - OPEN <= secrets, "mark the field as a secret, or add it to OPEN"
    assert secrets - free == {"kafka"}
