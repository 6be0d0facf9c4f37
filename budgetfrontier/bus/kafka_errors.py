"""The meaning of the errors of Kafka for a client: which pass by themselves (the extra "kafka")."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from budgetfrontier.bus.interface import TIMEOUT, BusAway, BusError
from budgetfrontier.errors import MissingExtra

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
    _CODES.INVALID_REPLICATION_FACTOR,  # more replicas than brokers, some of which may be starting
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
"""Errors of a commit by a consumer whose partitions belong, or are about to belong, to another."""
TOO_LARGE = {_CODES.MSG_SIZE_TOO_LARGE, _CODES.RECORD_LIST_TOO_LARGE, _CODES.INVALID_MSG_SIZE}
"""Errors of a message, or of the batch that it was sent in, which a broker takes at no time."""
_PAUSE = 0.1
"""Seconds before a request is repeated."""


def error_of(error: Any) -> BusError:
    """Return what an error of librdkafka means: BusAway if it passes by itself once a broker answers."""
    text = f"Kafka: {error.args[0].str()}"
    if error.args[0].code() in PASSING | UNANSWERED:
        return BusAway(f"{text}; look whether it runs")
    return BusError(text)


def repeated(request: Callable[[], T]) -> T:
    """Return the result of a request, which is repeated while its errors pass by themselves. Raises BusError."""
    deadline = time.monotonic() + TIMEOUT
    while True:
        try:
            return request()
        except KafkaException as error:
            if error.args[0].code() not in PASSING or time.monotonic() > deadline:
                raise error_of(error) from error
            time.sleep(_PAUSE)


@contextmanager
def explained() -> Iterator[None]:
    """Raise what an error of librdkafka in the block means, and BusError for a property that it does not take."""
    try:
        yield
    except KafkaException as error:
        raise error_of(error) from error
    except ValueError as error:
        raise BusError(f"Kafka: {error}") from error
