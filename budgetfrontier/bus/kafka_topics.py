"""The ids of topics, which differ from those of later topics of the same name (the extra "kafka")."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any, Final

from budgetfrontier.errors import MissingExtra

try:
    from confluent_kafka import KafkaError, KafkaException, TopicCollection
    from confluent_kafka.admin import AdminClient
except ModuleNotFoundError as error:
    raise MissingExtra("kafka") from error

LOOK_AGAIN: Final = 10.0
"""Seconds between two requests for the id of a topic."""
_TIMEOUT: Final = 10.0
_NONE: Final = "A" * 22
"""The id that a broker without ids gives, in Base64."""


class TopicIds:
    """The ids of topics as of lately, which are asked for in the background."""

    def __init__(self, settings: Mapping[str, Any], *, changed: Callable[[], object]) -> None:
        """Prepare to ask. `changed` is called when a topic is found to be gone, or another than before."""
        self._settings, self._changed = dict(settings), changed
        self._client: Any = None
        self._known: dict[str, bytes] = {}
        self._asked: dict[str, Any] = {}
        self._due: dict[str, float] = {}

    def of(self, topic: str) -> bytes:
        """Return the id of a topic; empty if it is not known, or not yet. Never waits."""
        asked = self._asked.get(topic)
        if asked is None:
            self._ask(topic)
        elif asked.done():
            del self._asked[topic]
            self._note(topic, asked)
        return self._known.get(topic, b"")

    def ask(self, topic: str, timeout: float) -> str:
        """Return the id of a topic as of now, "" of a broker without ids. Raises KafkaException."""
        return _id_in(self._begin(topic, timeout))

    def _note(self, topic: str, asked: Any) -> None:
        try:
            found = _id_in(asked).encode()
        except KafkaException as error:  # nobody may look, or no broker answers: asked again later
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                self._changed()
            return
        if found:
            if self._known.get(topic, found) != found:
                self._changed()
            self._known[topic] = found

    def _ask(self, topic: str) -> None:
        if (now := monotonic()) < self._due.get(topic, 0.0):
            return
        self._due[topic] = now + LOOK_AGAIN
        self._asked[topic] = self._begin(topic, _TIMEOUT)

    def _begin(self, topic: str, timeout: float) -> Any:
        if self._client is None:
            self._client = AdminClient(self._settings)
        return self._client.describe_topics(TopicCollection([topic]), request_timeout=timeout)[topic]


def _id_in(asked: Any) -> str:
    """Return the id in the answer to a request for a topic, which is waited for; "" if the broker gives none."""
    found = str(asked.result().topic_id)
    return "" if found == _NONE else found
