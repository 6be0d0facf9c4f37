"""The results of policies, checked: a PolicyError names the policy, the URL and the value."""

from __future__ import annotations

from typing import Any

import pytest

from budgetfrontier.core.model import CrawlUri
from budgetfrontier.errors import PolicyError
from budgetfrontier.settings import policy_results

URL = "https://a.test/page"


class Hostile:
    """An object of which every question raises."""

    def __repr__(self) -> str:
        raise RuntimeError("nobody may see it")

    def __index__(self) -> int:
        raise RuntimeError("nobody may count it")

    def __float__(self) -> float:
        raise RuntimeError("nobody may measure it")


@pytest.mark.parametrize(
    ("value", "number"), [(3, 3), (True, 1), (3.0, 3), (3.5, None), ("3", None), (Hostile(), None)]
)
def test_whole_numbers(value: Any, number: int | None) -> None:
    assert policy_results.whole(value) == number


@pytest.mark.parametrize(
    ("value", "seconds"),
    [(3, 3.0), (0, 0.0), (-1, None), (float("inf"), None), (float("nan"), None), ("3", None), (Hostile(), None)],
)
def test_seconds(value: Any, seconds: float | None) -> None:
    assert policy_results.seconds(value) == seconds


@pytest.mark.parametrize("form", [None, 5, "", "no url", "https://a.test", "https://a.test/\ud800", Hostile()])
def test_what_is_no_canonical_form_names_policy_url_and_value(form: Any) -> None:
    with pytest.raises(PolicyError, match=f"the canonicalization policy mine returned .* for {URL}") as caught:
        policy_results.form(lambda _: form, "mine", URL)
    assert (caught.value.url, caught.value.value) == (URL, form)
    assert policy_results.form(lambda url: url + "?", "mine", URL) == URL + "?"


@pytest.mark.parametrize("key", [None, 5, b"a.test"])
def test_what_is_no_queue_key(key: Any) -> None:
    with pytest.raises(PolicyError, match="the key of a queue is text"):
        policy_results.queue_key(lambda _: key, {"mine": {"option": 1}}, CrawlUri(URL))


def test_what_a_policy_raises_is_its_cause_and_an_error_that_has_a_url_is_kept() -> None:
    def fails(_: object) -> str:
        raise LookupError("no such host")

    with pytest.raises(PolicyError, match=r"raised LookupError for .*: no such host") as caught:
        policy_results.form(fails, "mine", URL)
    assert isinstance(caught.value.__cause__, LookupError)
    error = PolicyError("already told", policy="other", url=URL, value=1)
    assert policy_results.raised("cost", "mine", "https://b.test/", error) is error
