"""Settings as a whole: a full configuration, a faithful round trip, and what importing them imports."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from budgetfrontier.settings import Settings
from budgetfrontier.settings.schema import Override, Seed
from budgetfrontier.settings.validation import profile

FULL: dict[str, Any] = {
    "crawl": "news-2026",
    "seeds": ["https://www.example.org/", {"url": "https://www.example.net/", "priority": 10}, {"file": "seeds.txt"}],
    "scope": {"accept": ["seed-hosts"], "reject": [r"regex:\.(zip|exe)$"], "max_hops": 20},
    "frontier": {
        "hold-queues": False,
        "cost_policy": "wag",
        "politeness": {"min-delay": "500ms"},
        "retry": {"delay": "15m", "scope": "uri"},
    },
    "overrides": [{"match": "domain:example.com", "set": {"queue_total_budget": 100, "retry": {"delay": "1h"}}}],
    "fetch": {"user_agent": "Bot/1.0 (+https://example.org/bot)", "resolve": {"*.test": "127.0.0.1:8080"}},
    "output": {"warc": True, "links": "jsonl"},
    "limits": {"max_uris": 1000000, "max_time": "12h", "max_bytes": "50GiB"},
    "reports": {"every": "5m"},
    "hooks": ["mine.hooks:Watcher"],
}


def test_a_full_configuration_is_read() -> None:
    settings = Settings.from_dict(FULL)
    assert settings.seeds[1] == Seed(url="https://www.example.net/", priority=10)
    assert settings.seeds[2].file == "seeds.txt"
    assert settings.frontier.politeness.min_delay == 0.5
    assert settings.overrides == (
        Override(match="domain:example.com", set={"queue_total_budget": 100, "retry.delay": 3600.0}),
    )
    assert settings.limits.max_bytes == 50 * 1024**3
    assert settings.fetch.resolve == {"*.test": "127.0.0.1:8080"}
    assert settings.output.warc is True


def test_to_dict_is_json_and_round_trips() -> None:
    for settings in (Settings(), Settings.from_dict(FULL), profile("demo", Settings())):
        plain = settings.to_dict()
        assert json.loads(json.dumps(plain)) == plain
        assert Settings.from_dict(plain) == settings


def test_settings_are_frozen() -> None:
    with pytest.raises(AttributeError):
        Settings().crawl = "other"  # type: ignore[misc]


def test_importing_settings_imports_neither_yaml_nor_policies() -> None:
    code = "import sys, budgetfrontier.settings.overrides; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "budgetfrontier.settings.overrides" in run.stdout.split()
    assert not {"yaml", "tldextract", "budgetfrontier.settings.policies.cost"} & set(run.stdout.split())
