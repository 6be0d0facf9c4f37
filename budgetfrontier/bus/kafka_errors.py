"""The meaning of the errors of Kafka for a client: which pass by themselves (the extra "kafka")."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar

from budgetfrontier.bus.interface import TIMEOUT, BusAway, BusError
from budgetfrontier.bus.patience import STEP, Patience, Wait
from budgetfrontier.errors import FrontierError, MissingExtra

try:
    from confluent_kafka import KafkaError as _CODES
    from confluent_kafka import KafkaException
except ModuleNotFoundError as error:
    raise MissingExtra("kafka") from error

T = TypeVar("T")

REFUSED = {
    _CODES.TOPIC_AUTHORIZATION_FAILED,
    _CODES.GROUP_AUTHORIZATION_FAILED,
    _CODES.CLUSTER_AUTHORIZATION_FAILED,
    _CODES.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    _CODES.DELEGATION_TOKEN_EXPIRED,
    _CODES.SASL_AUTHENTICATION_FAILED,
    _CODES.UNSUPPORTED_SASL_MECHANISM,
    _CODES.ILLEGAL_SASL_STATE,
    _CODES.SECURITY_DISABLED,
    _CODES._AUTHENTICATION,
    _CODES.INVALID_GROUP_ID,
    _CODES.INVALID_SESSION_TIMEOUT,
    _CODES.INCONSISTENT_GROUP_PROTOCOL,
    _CODES.UNSUPPORTED_ASSIGNOR,
    _CODES.GROUP_MAX_SIZE_REACHED,
    _CODES.FENCED_INSTANCE_ID,
    _CODES.TOPIC_EXCEPTION,
    _CODES.INVALID_REGULAR_EXPRESSION,
    _CODES.INVALID_REQUEST,
    _CODES.INVALID_CONFIG,
    _CODES.POLICY_VIOLATION,
    _CODES.UNSUPPORTED_VERSION,
    _CODES.UNSUPPORTED_COMPRESSION_TYPE,
    _CODES.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    _CODES._FATAL,
    _CODES._FENCED,
    _CODES._INVALID_ARG,
    _CODES._NOT_IMPLEMENTED,
    _CODES._UNSUPPORTED_FEATURE,
    _CODES._UNKNOWN_PROTOCOL,
}
"""Errors of a consumer that do not pass by themselves."""
PASSING = {
    _CODES.NOT_COORDINATOR,
    _CODES.COORDINATOR_LOAD_IN_PROGRESS,
    _CODES.COORDINATOR_NOT_AVAILABLE,
    _CODES.NOT_LEADER_FOR_PARTITION,
    _CODES.LEADER_NOT_AVAILABLE,
    _CODES.UNKNOWN_TOPIC_OR_PART,
    _CODES._TRANSPORT,
    _CODES._ALL_BROKERS_DOWN,
    _CODES._WAIT_COORD,
}
"""Errors of a request that is worth repeating: brokers are starting, or a new topic is not known everywhere yet."""
UNANSWERED = {
    _CODES._TIMED_OUT,
    _CODES._TIMED_OUT_QUEUE,
    _CODES._MSG_TIMED_OUT,
    _CODES._RESOLVE,
    _CODES._QUEUE_FULL,
    _CODES._RETRY,
    _CODES._OUTDATED,
    _CODES._PREV_IN_PROGRESS,
    _CODES._WAIT_CACHE,
    _CODES._DESTROY_BROKER,
    _CODES._UNKNOWN_BROKER,
    _CODES._UNKNOWN_PARTITION,  # a topic that is new, or being made anew
    _CODES._UNKNOWN_TOPIC,
    _CODES.REQUEST_TIMED_OUT,
    _CODES.BROKER_NOT_AVAILABLE,
    _CODES.REPLICA_NOT_AVAILABLE,
    _CODES.NOT_ENOUGH_REPLICAS,
    _CODES.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    _CODES.INVALID_REPLICATION_FACTOR,  # more replicas than brokers, which may still be starting
    _CODES.NETWORK_EXCEPTION,
    _CODES.NOT_CONTROLLER,
    _CODES.STALE_CTRL_EPOCH,
    _CODES.STALE_BROKER_EPOCH,
    _CODES.FENCED_LEADER_EPOCH,
    _CODES.UNKNOWN_LEADER_EPOCH,
    _CODES.OFFSET_NOT_AVAILABLE,
    _CODES.PREFERRED_LEADER_NOT_AVAILABLE,
    _CODES.ELIGIBLE_LEADERS_NOT_AVAILABLE,
    _CODES.UNSTABLE_OFFSET_COMMIT,
    _CODES.KAFKA_STORAGE_ERROR,
    _CODES.THROTTLING_QUOTA_EXCEEDED,
    _CODES.UNKNOWN_TOPIC_ID,
    _CODES.INCONSISTENT_TOPIC_ID,
    _CODES.REBOOTSTRAP_REQUIRED,
}
"""Further errors that say that brokers are away, or that not all of them are there: it is worth asking again later."""
LOST = {
    _CODES.ILLEGAL_GENERATION,
    _CODES.UNKNOWN_MEMBER_ID,
    _CODES.REBALANCE_IN_PROGRESS,
    _CODES.STALE_MEMBER_EPOCH,
    _CODES.FENCED_INSTANCE_ID,
    _CODES._NO_OFFSET,
    _CODES._ASSIGNMENT_LOST,
}
"""Errors of a commit by a consumer that has lost its partitions, or is about to."""
TOO_LARGE = {_CODES.MSG_SIZE_TOO_LARGE, _CODES.RECORD_LIST_TOO_LARGE, _CODES.INVALID_MSG_SIZE}
"""Errors of a message, or of the batch that it was sent in, which a broker takes at no time."""
_PAUSE = 0.1
"""Seconds before a request is repeated."""
_FIRST_WAIT = 0.5
"""Seconds to wait for the answer to a first request before reading the errors of its connection."""


class Heard:
    """Errors that a client hears of its connections, as its `error_cb`: why brokers cannot be reached.

    librdkafka tries again whatever happens, so that requests only run out of time.
    """

    def __init__(self) -> None:
        self._error: Any = None

    def __call__(self, error: Any) -> None:
        """Keep the first error that gives a reason; refused credentials take precedence."""
        if error.code() == _CODES._AUTHENTICATION or (self._error is None and error.code() != _CODES._ALL_BROKERS_DOWN):
            self._error = error

    def first(
        self,
        client: Any,
        request: Callable[[float], T],
        timeout: float = TIMEOUT,
        *,
        patience: Patience | None = None,
    ) -> T:
        """Return the result of the first request of a client; it gets the seconds that it may wait.

        The client must not read messages yet. Raises FrontierError if brokers refuse its credentials, BusAway with the
        last errors if none answers for `timeout` seconds, and BusError.
        """
        seconds, wait = _FIRST_WAIT, (patience or Patience()).wait(timeout)
        while True:
            try:
                return result_of(_begun(request, max(0.0, min(seconds, wait.left()))), wait)
            except (BusAway, KafkaException) as error:
                client.poll(0)  # which calls this object
                if self._error is not None and self._error.code() == _CODES._AUTHENTICATION:
                    raise FrontierError(f"Kafka refuses the credentials: {self._error.str()}") from error
                found = error if isinstance(error, BusAway) else error_of(error)
                if not isinstance(found, BusAway):
                    raise found from error
                if wait.left() <= 0:
                    raise found if self._error is None else error_of(KafkaException(self._error)) from error
            time.sleep(_PAUSE)
            seconds *= 2


def error_of(error: Any) -> BusError:
    """Return the exception for an error of librdkafka: BusAway if it passes by itself once a broker answers."""
    text = f"Kafka: {error.args[0].str()}"
    if error.args[0].code() in PASSING | UNANSWERED:
        return BusAway(f"{text}; look whether it runs")
    return BusError(text)


def repeated(request: Callable[[float], T], patience: Patience) -> T:
    """Return the result of a request, which takes the seconds that it may wait.

    It is repeated while it is not answered, and while its errors pass by themselves. Raises BusError.
    """
    seconds, wait = _FIRST_WAIT, patience.wait(TIMEOUT)
    while True:
        try:
            return request(max(0.0, min(seconds, wait.left())))
        except KafkaException as error:
            if error.args[0].code() not in PASSING | {_CODES._TIMED_OUT} or wait.left() <= 0:
                raise error_of(error) from error
            time.sleep(_PAUSE)
            # Longer, since the broker may be slow; not for long, since handlers of signals run between two calls only.
            seconds = min(2 * seconds, max(2.0, wait.waited / 4), 5.0)


def _begun(request: Callable[[float], T], seconds: float) -> Future[T]:
    """Make a request in a thread: librdkafka does not return for a signal, and a request may take long."""
    future = Future[T]()

    def run() -> None:
        try:
            future.set_result(request(seconds))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def result_of(future: Future[T], wait: Wait) -> T:
    """Return the result of a request that is under way. Raises KafkaException, and BusAway once the wait is over."""
    while True:
        try:
            return future.result(timeout=STEP)
        except TimeoutError:
            if wait.left() <= 0:
                raise BusAway(f"Kafka has not answered for {wait.waited:.0f} s; look whether it runs") from None


@contextmanager
def explained() -> Iterator[None]:
    """Raise the exception for an error of librdkafka in the block, and BusError for an unknown property."""
    try:
        yield
    except KafkaException as error:
        raise error_of(error) from error
    except ValueError as error:
        raise BusError(f"Kafka: {error}") from error
