"""The differences between two sets of settings: by dotted name, short, and without passwords."""

from __future__ import annotations

from typing import Any

from budgetfrontier.settings import Settings
from budgetfrontier.settings.differences import changes


def told(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """What has changed between two settings, as lines."""
    return [str(change) for change in changes(Settings.from_dict(before), Settings.from_dict(after))]


def test_only_what_differs_is_told_in_the_order_of_the_schema() -> None:
    given = {"crawl": "a", "frontier": {"queue_total_budget": 5, "retry": {"delay": "1h"}}}
    assert told(given, given) == []
    assert told({}, given) == [
        f"crawl: {Settings().crawl} -> a",
        "frontier.queue_total_budget: no limit -> 5",
        "frontier.retry.delay: 15m -> 1h",
    ]


def test_of_a_long_list_there_is_what_the_other_does_not_have() -> None:
    many = [f"https://{number}.test/" for number in range(100)]
    [change] = changes(Settings.from_dict({"seeds": many}), Settings.from_dict({"seeds": [*many, "https://new.test/"]}))
    assert len(change.before) == 1 and change.before[0].startswith("...and 100 more")
    assert len(change.after) == 2 and "new.test" in str(change.after[0])
    [line] = told({}, {"seeds": many})
    assert len(line) < 400 and line.endswith("...")


def test_what_may_hold_passwords_is_not_shown() -> None:
    secret = {"fetch": {"proxy": "http://user:secret@proxy:3128", "requests": [{"auth": "user:secret"}]}}
    lines = told({}, secret)
    assert len(lines) == 2 and not any("secret" in line for line in lines)


def test_a_change_beside_a_secret_is_shown_and_one_of_a_secret_is_told_without_it() -> None:
    def of(secret: str, broker: str = "a.test") -> dict[str, Any]:
        webhook = f"https://chat.test/{secret}"
        return {
            "alerts": {"sinks": [{"webhook": webhook, "secret": secret}]},
            "cluster": {"kafka": f"{broker}:9092?sasl.password={secret}"},
        }

    assert told(of("first"), of("second")) == [
        "alerts.sinks: (not shown) -> (not shown)",
        "cluster.kafka: (not shown) -> (not shown)",
    ]
    assert told(of("first"), of("second", "b.test"))[1] == "cluster.kafka: a.test:9092?*** -> b.test:9092?***"
