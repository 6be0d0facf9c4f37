"""One attempt to deliver an alert: to a webhook, a command or mail, which answer, refuse or hang."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import socket
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from budgetfrontier.reports.alert_state import AlertDelivery
from budgetfrontier.rules.alert_conditions import RaisedAlert
from budgetfrontier.settings import Settings
from budgetfrontier.settings.schema import AlertSink
from budgetfrontier.tools.alerting import alert_delivery
from budgetfrontier.tools.alerting.alert_delivery import SIGNATURE, NotDelivered
from tests.remote.test_tls import certificate
from tests.support import PATIENCE, until
from tests.tools.alerting.receivers import Hook, Mailbox, served

ABOUT = RaisedAlert(1795457992.0, "warn", "The crawl is paused by anna.")
ALERT = alert_delivery.payload(
    "news",
    "jobs/news",
    AlertDelivery(id="7", sink="x", condition="paused", raised=True, time=1795457993.0, about=ABOUT),
)


def sink(**values: Any) -> AlertSink:
    return Settings.from_dict({"alerts": {"sinks": [{"timeout": PATIENCE, **values}]}}).alerts.sinks[0]


def failure(one: AlertSink, environment: dict[str, str] | None = None) -> NotDelivered:
    with pytest.raises(NotDelivered) as raised:
        alert_delivery.deliver(one, ALERT, environment or {})
    return raised.value


# -- webhooks


def test_a_webhook_gets_json_and_its_signature(hook: Hook) -> None:
    alert_delivery.deliver(
        sink(webhook=f"{hook.url}${{TAIL}}", secret="${KEY}"), ALERT, {"KEY": "geheim", "TAIL": "&c=d"}
    )
    [(path, headers, body)] = hook.posted
    assert path == "/hook?a=b&c=d"
    assert json.loads(body) == {
        "id": "7", "crawl": "news", "job": "jobs/news", "condition": "paused", "queue": None, "raised": True,
        "level": "warn", "text": "The crawl is paused by anna.",
        "since": "2026-11-23T18:19:52Z", "time": "2026-11-23T18:19:53Z",
    }  # fmt: skip
    assert headers["Content-Type"] == "application/json"
    assert headers[SIGNATURE] == f"sha256={hmac.new(b'geheim', body, hashlib.sha256).hexdigest()}"


def test_the_user_of_a_webhook_is_sent_as_basic_authentication(hook: Hook) -> None:
    url = hook.url.replace("http://", "http://user:${PASSWORD}@")
    alert_delivery.deliver(sink(webhook=url), ALERT, {"PASSWORD": "Ge%40heim:"})
    alert_delivery.deliver(sink(webhook=hook.url), ALERT, {})
    assert [headers.get("Authorization") for _, headers, _ in hook.posted] == [
        f"Basic {base64.b64encode(b'user:Ge@heim:').decode()}", None,
    ]  # fmt: skip


@pytest.mark.parametrize(("status", "final"), [(500, False), (503, False), (429, False), (404, True), (302, True)])
def test_a_webhook_that_answers_otherwise(hook: Hook, status: int, *, final: bool) -> None:
    hook.status = status
    failed = failure(sink(webhook=hook.url))
    assert (str(failed), failed.final) == (f"answered with {status}", final)
    assert len(hook.posted) == 1  # no redirect is followed


def test_a_webhook_that_sends_a_byte_now_and_then_has_failed_after_its_time(
    hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alert_delivery, "_SPARE", 0.1)
    hook.slow = True
    assert str(failure(sink(webhook=hook.url, timeout=0.2))) == "no answer within 0.2 s"


def test_nobody_listens() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
    failed = failure(sink(webhook=f"http://127.0.0.1:{port}/"))
    assert "refused" in str(failed) and not failed.final


def test_a_variable_that_is_not_set_or_makes_no_url() -> None:
    assert str(failure(sink(webhook="${HOOK}"))) == "the environment variable HOOK is not set"
    failed = failure(sink(webhook="${HOOK}"), {"HOOK": "ftp://x/"})
    assert (str(failed), failed.final) == ("this is no http or https URL", True)


# -- commands


def test_a_command_gets_json_on_its_standard_input(tmp_path: Path) -> None:
    got = tmp_path / "got"
    script = f"import os, sys; open({str(got)!r}, 'w').write(sys.stdin.read() + os.environ['WHO'])"
    alert_delivery.deliver(sink(command=[sys.executable, "-c", script]), ALERT, {**os.environ, "WHO": "me"})
    line, _, who = got.read_text().partition("\n")
    assert (json.loads(line), who) == (ALERT, "me")


def test_a_command_that_fails_or_is_not_there() -> None:
    assert str(failure(sink(command=["sh", "-c", "echo a; echo b >&2; exit 3"]), dict(os.environ))) == "exit code 3: b"
    assert "No such file" in str(failure(sink(command=["/nowhere/at/all"])))
    alert_delivery.deliver(sink(command=["true"]), ALERT, dict(os.environ))  # it reads nothing


def test_a_command_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = f"sleep 1000 & echo $! >{pids}; echo $$ >>{pids}; wait"
    one = sink(command=["sh", "-c", script], timeout=0.3)
    assert str(failure(one, dict(os.environ))) == "no answer within 0.3 s"
    for pid in map(int, pids.read_text().split() if pids.exists() else ()):
        until(partial(_is_gone, pid))


def _is_gone(pid: int) -> bool:
    try:
        return "Z" in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]
    except OSError:
        return True


# -- mail


def test_mail() -> None:
    mailbox = Mailbox(login=b"me:geheim")
    with served(mailbox):
        one = sink(mail=["a@x.test", "b@x.test"], sender="crawl@x.test", server=mailbox.address, login="me:${PASSWORD}")
        alert_delivery.deliver(one, ALERT, {"PASSWORD": "geheim"})
        assert "535" in str(failure(one, {"PASSWORD": "falsch"}))
    [(recipients, message)] = mailbox.mail
    assert recipients == ["a@x.test", "b@x.test"]
    assert (message["Subject"], message["From"], message["To"]) == (
        "news: paused", "crawl@x.test", "a@x.test, b@x.test",
    )  # fmt: skip
    assert str(message.get_payload()).splitlines()[:3] == ["The crawl is paused by anna.", "", "job: jobs/news"]


def test_mail_about_a_queue_with_an_odd_key() -> None:
    mailbox = Mailbox()
    with served(mailbox):
        one = sink(mail=["a@x.test"], sender="b@x.test", server=mailbox.address)
        alert_delivery.deliver(one, ALERT | {"queue": "a\nBcc: x@y.test"}, {})
    [(_, message)] = mailbox.mail
    assert (message["Subject"], message["Bcc"]) == (r"news: paused a\nBcc: x@y.test", None)


def test_mail_that_is_refused() -> None:
    mailbox = Mailbox(login=b"me:geheim")
    with served(mailbox):
        assert "who are you" in str(failure(sink(mail=["a@x.test"], sender="b@x.test", server=mailbox.address)))
        one = sink(mail=["a@x.test"], sender="b@x.test", server=mailbox.address, tls="starttls")
        assert "STARTTLS" in str(failure(one))
    assert mailbox.mail == []


def test_a_certificate_that_nobody_vouches_for_is_refused() -> None:
    mailbox = Mailbox(tls="always")
    with served(mailbox):
        one = sink(mail=["a@x.test"], sender="b@x.test", server=mailbox.address, tls="always")
        assert "certificate verify failed" in str(failure(one))
    assert mailbox.mail == []


@pytest.mark.parametrize("tls", ["starttls", "always"])
def test_mail_over_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tls: str) -> None:
    ours = certificate(tmp_path, "ours", "-addext", "subjectAltName=DNS:localhost")
    others = certificate(tmp_path, "others")
    mailbox = Mailbox(login=b"me:geheim", tls=tls, certificate=ours)
    with served(mailbox):
        one = sink(mail=["a@x.test"], sender="b@x.test", server=mailbox.address, tls=tls, login="me:geheim")
        assert "certificate verify failed: self-signed certificate" in str(failure(one))
        monkeypatch.setenv("SSL_CERT_FILE", str(others[0]))
        assert "certificate verify failed" in str(failure(one))
        monkeypatch.setenv("SSL_CERT_FILE", str(ours[0]))
        alert_delivery.deliver(one, ALERT, {})
        elsewhere = replace(one, server=mailbox.address.replace("localhost", "127.0.0.1"))
        assert "certificate verify failed: IP address mismatch" in str(failure(elsewhere))
        if tls == "starttls":
            assert "STARTTLS" in str(failure(replace(one, tls="none", login=None)))
    assert [recipients for recipients, _ in mailbox.mail] == [["a@x.test"]]
