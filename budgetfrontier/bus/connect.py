"""The choice of a transport by its URL."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

from budgetfrontier.bus.interface import SESSION, Bus
from budgetfrontier.bus.patience import Patience
from budgetfrontier.core.endpoints import redis_url
from budgetfrontier.core.spelling import did_you_mean
from budgetfrontier.errors import WrongAddress
from budgetfrontier.reports.format import without_password

DEFAULT = "zmq+tcp://127.0.0.1:5550"
"""The address of a broker on this machine."""
_SCHEMES = (
    "zmq+tcp://HOST:PORT, zmq+ipc://PATH, redis://HOST[:PORT][/DATABASE], unix:///PATH (Redis), kafka://HOST:PORT"
)
_NAMES = ("zmq+tcp", "zmq+ipc", "kafka", *redis_url.SCHEMES)


def connect(url: str = DEFAULT, *, session: float = SESSION, patience: Patience | None = None) -> Bus:
    """Return a bus. Its broker may be started later; operations wait for it, and then raise BusError.

    `session` is the number of seconds after which a consumer that has not polled is taken for dead; once
    `patience` is stopped, operations give up on a broker that does not answer within two seconds. Raises
    WrongAddress for a wrong URL or one of an unknown kind, SettingsError for a property that a bus cannot have,
    MissingExtra if the transport's package is not installed.
    """
    scheme = url.partition(":")[0].lower()
    if scheme.startswith("zmq+"):
        from budgetfrontier.bus.zeromq import broker_client

        return broker_client.connect(url.removeprefix("zmq+"), session=session, patience=patience)
    if scheme in redis_url.SCHEMES:
        from budgetfrontier.bus import redis_streams

        return redis_streams.connect(url, session=session, patience=patience)
    if scheme == "kafka":
        from budgetfrontier.bus import kafka

        wrong = WrongAddress(f"{shown(url)!r:.200} names no brokers of a bus: give kafka://HOST:PORT,HOST:PORT,...")
        try:
            parts = urlsplit(url)
        except ValueError:  # a bracket without its other one
            raise wrong from None
        if not parts.netloc or parts.path.strip("/"):
            raise wrong
        return kafka.connect(parts.netloc, dict(parse_qsl(parts.query)), session=session, patience=patience)
    meant = did_you_mean(scheme, _NAMES)
    raise WrongAddress(f"{scheme or url!r:.50} is no transport of the message bus; there are {_SCHEMES}{meant}")


def shown(url: str) -> str:
    """Return the URL of a bus for logs: without a password, and without the properties of Kafka, which have some."""
    return without_password(url).partition("?")[0]
