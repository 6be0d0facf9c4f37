"""The name that a crawler has in robots.txt and in robots tags."""

from __future__ import annotations

import pytest

from budgetfrontier.errors import SettingsError
from budgetfrontier.settings import Settings
from budgetfrontier.settings.robots_name import is_browser, product_token, robots_name

APPLE = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_5) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/13.1.1"


@pytest.mark.parametrize(
    ("user_agent", "token"),
    [
        ("budgetfrontier", "budgetfrontier"),
        ("ExampleBot/1.0 (+https://example.org/bot)", "examplebot"),
        ("ExampleBot/1.0 (Acme/2.0; +https://example.org/bot) Gecko/1 Other/2", "examplebot"),
        ("ExampleBot/1.1; (+https://example.org/bot)", "examplebot"),
        ("Example-Bot_2 (compatible)", "example-bot_2"),
        ("Mozilla/5.0 (compatible; ExampleBot/1.0; +https://example.org/bot)", "examplebot"),
        (
            "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; ExampleBot/1.1; +http://a.test)",
            "examplebot",
        ),
        ("Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1; ExampleBot/1.0; +https://a.test/)", "examplebot"),
        (f"{APPLE} Safari/605.1.15 (ExampleBot/0.1; +https://example.org/bot)", "examplebot"),
        (f"{APPLE} Safari/605.1.15 (ExampleBot; bot@example.org)", "examplebot"),
        ("Mozilla/5.0 (X11; Linux; Nokia; ExampleBot/1.0; +https://example.org/bot)", "examplebot"),
        ("Mozilla/5.0 (iPad; ExampleBot 1.0; +https://example.org/bot)", "examplebot"),
        ("Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 ExampleBot/1.0 (+https://example.org/bot)", "examplebot"),
        ("Mozilla/5.0 (+https://example.org/bot) ExampleBot/1.0 Safari/605", "examplebot"),
        ("https://example.org/bot ExampleBot", "examplebot"),
    ],
)
def test_the_first_product_that_no_browser_has(user_agent: str, token: str) -> None:
    assert product_token(user_agent) == token and not is_browser(token)


@pytest.mark.parametrize(
    ("user_agent", "token"),
    [
        (f"{APPLE} Safari/605.1.15 (+https://a.test/)", "mozilla"),
        ("Mozilla/5.0 (X11; U)", "mozilla"),
        ("/", "*"),
        ("-", "-"),
    ],
)
def test_a_browsers_name_and_none(user_agent: str, token: str) -> None:
    assert product_token(user_agent) == token and is_browser(token)


def test_a_name_that_is_set_counts() -> None:
    named = {"user_agent": "Mozilla/5.0 (+https://a.test/)", "robots_name": "ExampleBot"}
    assert robots_name(Settings.from_dict({"fetch": named}).fetch) == "examplebot"
    with pytest.raises(SettingsError, match="robots_name"):
        Settings.from_dict({"fetch": {"robots_name": "Example Bot"}})
