"""The delivery of one alert to one sink: a webhook, a command, or mail. Each attempt ends within its time-out."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import os
import signal
import smtplib
import ssl
import subprocess
import threading
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from email.message import EmailMessage
from email.utils import formatdate
from queue import Empty, Queue
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from budgetfrontier import __version__
from budgetfrontier.core.units import format_time
from budgetfrontier.reports.alert_state import AlertDelivery
from budgetfrontier.reports.format import clean
from budgetfrontier.settings.alert_sinks import is_url, kind_of, server_of
from budgetfrontier.settings.credentials import missing, substituted
from budgetfrontier.settings.schema import AlertSink

SIGNATURE = "X-Budgetfrontier-Signature-256"
"""The header with `sha256=` and the HMAC of the body in hexadecimal digits."""
_TRY_LATER = (408, 425, 429)
_LONGEST_REASON = 200
_SPARE = 1.0  # seconds more than the time-out, in which a command is killed


class NotDelivered(Exception):
    """An attempt has failed, for the reason given. `final`: another one would fail, too."""

    def __init__(self, reason: str, *, final: bool = False) -> None:
        super().__init__(clean(reason)[:_LONGEST_REASON])
        self.final = final


def payload(crawl: str, job: str, delivery: AlertDelivery) -> dict[str, Any]:
    """Return an alert as plain data, as webhooks and commands get it. Names may have characters that JSON refuses."""
    condition, _, queue = delivery.condition.partition(":")
    return {
        "id": delivery.id,
        "crawl": clean(crawl),
        "job": clean(job),
        "condition": condition,
        "queue": queue or None,
        "raised": delivery.raised,
        "level": delivery.about.level,
        "text": delivery.about.text,
        "since": format_time(delivery.about.since),
        "time": format_time(delivery.time),
    }


def deliver(sink: AlertSink, alert: Mapping[str, Any], environment: Mapping[str, str]) -> None:
    """Make one attempt, which has failed once its time is over, whatever the other side does. Raises NotDelivered.

    The time-out of a socket begins anew with each byte: what takes longer in all is left to a thread.
    """
    result: Queue[Exception | None] = Queue()

    def attempt() -> None:
        try:
            _attempt(sink, alert, environment)
        except Exception as error:
            result.put(error)
        else:
            result.put(None)

    threading.Thread(target=attempt, name="alert", daemon=True).start()
    try:
        error = result.get(timeout=sink.timeout + _SPARE)
    except Empty:
        error = TimeoutError()
    if isinstance(error, TimeoutError):
        raise NotDelivered(f"no answer within {sink.timeout:g} s")
    if isinstance(error, OSError | http.client.HTTPException | smtplib.SMTPException | ValueError):
        raise NotDelivered(str(error) or type(error).__name__)
    if error is not None:
        raise error


def _attempt(sink: AlertSink, alert: Mapping[str, Any], environment: Mapping[str, str]) -> None:
    texts = [sink.webhook or "", sink.secret or "", sink.login or ""]
    if absent := [name for text in texts for name in missing(text, environment)]:
        raise NotDelivered(f"the environment variable {absent[0]} is not set")
    send: Callable[[AlertSink, Mapping[str, Any], Mapping[str, str]], None] = {
        "webhook": _post,
        "command": _run,
        "mail": _mail,
    }[kind_of(sink)]
    send(sink, alert, environment)


# -- a webhook


def _post(sink: AlertSink, alert: Mapping[str, Any], environment: Mapping[str, str]) -> None:
    """Post an alert as JSON, with Basic authentication if the URL has a user. Redirects are not followed, and no proxy
    is used.
    """
    url = substituted(sink.webhook or "", environment)
    if not is_url(url):
        raise NotDelivered("this is no http or https URL", final=True)
    parts, body = urlsplit(url), msgspec.json.encode(alert)
    headers = {"Content-Type": "application/json", "User-Agent": f"budgetfrontier/{__version__}"}
    if parts.username is not None:
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
    if sink.secret:
        key = substituted(sink.secret, environment).encode("utf-8", "surrogateescape")
        headers[SIGNATURE] = f"sha256={hmac.new(key, body, hashlib.sha256).hexdigest()}"
    host, port = parts.hostname or "", parts.port
    if parts.scheme == "https":
        connection: http.client.HTTPConnection = http.client.HTTPSConnection(
            host, port, timeout=sink.timeout, context=ssl.create_default_context()
        )
    else:
        connection = http.client.HTTPConnection(host, port, timeout=sink.timeout)
    with closing(connection):
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", target, body=body, headers=headers)
        status = connection.getresponse().status
    if not 200 <= status < 300:
        raise NotDelivered(f"answered with {status}", final=status < 500 and status not in _TRY_LATER)


# -- a command


def _run(sink: AlertSink, alert: Mapping[str, Any], environment: Mapping[str, str]) -> None:
    """Run a command with an alert as JSON on its standard input. It and its children are killed after the time-out."""
    process = subprocess.Popen(
        sink.command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=dict(environment),
        start_new_session=True,
    )
    try:
        _, messages = process.communicate(msgspec.json.encode(alert) + b"\n", timeout=sink.timeout)
    except subprocess.TimeoutExpired:
        raise TimeoutError from None
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stderr is not None:
            process.stderr.close()
    if process.returncode:
        last = messages.decode(errors="replace").strip().rpartition("\n")[2]
        raise NotDelivered(f"exit code {process.returncode}{f': {last}' if last else ''}")


# -- mail


def _mail(sink: AlertSink, alert: Mapping[str, Any], environment: Mapping[str, str]) -> None:
    """Send mail, one to all addresses."""
    address = server_of(sink)
    assert address is not None  # it was checked
    message = EmailMessage()
    begun = "" if alert["raised"] else "over: "
    message["Subject"] = f"{alert['crawl']}: {begun}{alert['condition']} {clean(alert['queue'] or '')}".strip()
    message["From"], message["To"] = sink.sender, ", ".join(sink.mail)
    message["Date"], message["Message-ID"] = formatdate(), f"<{alert['id']}@budgetfrontier.invalid>"
    lines = [alert["text"], "", *(f"{name}: {alert[name]}" for name in ("job", "condition", "level", "since", "time"))]
    message.set_content("\n".join(lines) + "\n")
    context = None if sink.tls == "none" else ssl.create_default_context()
    if sink.tls == "always":
        connection: smtplib.SMTP = smtplib.SMTP_SSL(*address, timeout=sink.timeout, context=context)
    else:
        connection = smtplib.SMTP(*address, timeout=sink.timeout)
    with connection as client:
        if sink.tls == "starttls":
            client.starttls(context=context)
        if sink.login:
            user, _, password = substituted(sink.login, environment).partition(":")
            client.login(user, password)
        if refused := client.send_message(message):
            raise NotDelivered(f"refused for {', '.join(refused)}")
