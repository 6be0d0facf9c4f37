"""The bus over Redis Streams (the extra "redis"; Redis 7 or newer): a stream and consumer groups for each partition.

The message of offset N has the ID `0-(N + 1)`, given by Redis; the first N is the time in microseconds at which the
stream was created, so that offsets are never given twice, even if the server has lost data. Received, uncommitted
messages are pending; the partition's owner claims them once their consumer has left, or has been silent for a session.
Members of a group are in a sorted set with the time of their last poll. A stream is trimmed to the messages its groups
need.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from budgetfrontier.bus.interface import SESSION, TIMEOUT, BusAway, BusError, Received, Start
from budgetfrontier.bus.log_client import BATCH_BYTES, BATCH_MESSAGES, unique_name
from budgetfrontier.bus.partition_assignment import Member, assign
from budgetfrontier.bus.patience import Patience
from budgetfrontier.bus.streams import Stream
from budgetfrontier.core.endpoints import redis_url
from budgetfrontier.errors import MissingExtra, WrongAddress

try:
    import redis
except ModuleNotFoundError as error:
    raise MissingExtra("redis") from error

PAUSE = 0.1
"""Seconds before an operation is tried again on a server that does not answer, or has no memory left."""
_LONG_IDLE = 1 << 40  # milliseconds: for messages that any consumer may claim at once

_DECLARE = """
if redis.call('EXISTS', KEYS[1]) == 0 then
  local now = redis.call('TIME')
  redis.call('XGROUP', 'CREATE', KEYS[1], ARGV[1], '0', 'MKSTREAM')
  redis.call('XSETID', KEYS[1], string.format('0-%d%06d', now[1], now[2]))
  redis.call('XGROUP', 'DESTROY', KEYS[1], ARGV[1])
end
local info = redis.call('XINFO', 'STREAM', KEYS[1])
local last, first
for at = 1, #info, 2 do
  if info[at] == 'last-generated-id' then last = info[at + 1] end
  if info[at] == 'first-entry' then first = info[at + 1] end
end
if first then last = string.format('0-%.0f', tonumber(string.match(first[1], '-(%d+)$')) - 1) end
for _, group in ipairs(ARGV) do redis.pcall('XGROUP', 'CREATE', KEYS[1], group, last) end
"""
"""Creates a stream and groups that begin with the first message that is there; groups that exist stay as they are."""

_TRIM = """
local first = nil
for _, group in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
  local info = {}
  for at = 1, #group, 2 do info[group[at]] = group[at + 1] end
  local needed = tonumber(string.match(info['last-delivered-id'], '-(%d+)$')) + 1
  if info['pending'] > 0 then
    local oldest = redis.call('XPENDING', KEYS[1], info['name'])[2]
    needed = math.min(needed, tonumber(string.match(oldest, '-(%d+)$')))
  end
  if first == nil or needed < first then first = needed end
end
if first ~= nil then return redis.call('XTRIM', KEYS[1], 'MINID', '0-' .. string.format('%.0f', first)) end
return 0
"""
"""Removes the messages that every group has committed."""

_FORGET = """
for _, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
  local info = {}
  for at = 1, #consumer, 2 do info[consumer[at]] = consumer[at + 1] end
  if info['pending'] == 0 and info['idle'] > tonumber(ARGV[2]) then
    redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], info['name'])
  end
end
"""
"""Removes consumers that are gone; never one with pending messages, which would be lost with it."""


def connect(url: str, *, session: float = SESSION, patience: Patience | None = None) -> RedisBus:
    """Return a bus at the URL of a Redis server, which may be started later. Raises WrongAddress."""
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    try:
        options = redis_url.read(url).options
    except ValueError as error:
        raise WrongAddress(str(error)) from None
    client = redis.Redis(
        **options,
        decode_responses=False,
        retry=Retry(NoBackoff(), 0),  # repeated here, until a time that the caller knows
        socket_connect_timeout=TIMEOUT,
        socket_timeout=TIMEOUT,
    )
    return RedisBus(client, session=session, patience=patience)


class RedisBus:
    """A bus on a Redis server."""

    def __init__(self, client: Any, *, session: float = SESSION, patience: Patience | None = None) -> None:
        self._server = _RedisClient(client, patience or Patience())
        self._session = session

    def producer(self, stream: Stream) -> RedisProducer:
        """Return a new producer."""
        return RedisProducer(self._server, stream)

    def consumer(
        self, stream: Stream, group: str, *, partitions: tuple[int, ...] = (), start: Start | None = None
    ) -> RedisConsumer:
        """Return a new consumer of a group."""
        return RedisConsumer(self._server, stream, group, partitions=partitions, start=start, session=self._session)

    def lag(self, stream: Stream, group: str) -> list[int]:
        """Return the number of messages in each partition that the group has not committed."""
        self._server.declare(stream, group)

        def ask(client: Any) -> list[int]:
            lags = []
            for partition in range(stream.partitions):
                key = _key(stream, partition)
                there = client.xinfo_stream(key)
                dropped = _number(there["first-entry"][0]) - 1 if there["first-entry"] else 0
                info = next(one for one in client.xinfo_groups(key) if one["name"] == group.encode())
                read = max(dropped, _number(info["last-delivered-id"]))
                lags.append(max(0, _number(there["last-generated-id"]) - read) + info["pending"])
            return lags

        lags: list[int] = self._server.do(ask)
        return lags

    def begins(self, stream: Stream, partition: int) -> None:
        """Return None: the next message has the next number."""

    def log_id(self, stream: Stream) -> None:
        """Return None: the offsets of a new stream begin with the time."""

    def close(self) -> None:
        """Close the connection."""
        self._server.client.close()


_REFUSED = (redis.AuthenticationError, redis.exceptions.AuthorizationError, redis.exceptions.NoPermissionError)
_NEVER = ("WRONGTYPE", "NOPERM", "unknown command", "unknown subcommand", "syntax error", "wrong number of arguments")
"""Words of errors that do not pass: of keys of another program, or of a server that is too old, for example."""


def _error_of(error: redis.RedisError) -> BusError:
    """Return the exception for an error of the server: BusAway if the operation is worth repeating."""
    text = str(error).rpartition(" of pipeline caused error: ")[2]
    kind = BusError if any(words in text for words in _NEVER) else BusAway
    return kind(f"the Redis server of the bus: {error}")


class _RedisClient:
    """A client, operations that are repeated until the server answers, and the streams that were declared."""

    def __init__(self, client: Any, patience: Patience) -> None:
        self.client = client
        self._patience, self._hurries = patience, False
        self._declared: set[tuple[str, str]] = set()

    def do(self, operation: Any, timeout: float = TIMEOUT) -> Any:
        """Return the result of an operation on the client. Raises BusAway after `timeout` seconds without one."""
        wait = self._patience.wait(timeout)
        if self._patience.stopped is not None and not self._hurries:
            self._hurry()
        while True:
            try:
                return operation(self.client)
            except _REFUSED as error:
                raise BusError(f"the Redis server of the bus refuses this client: {error}") from error
            except (redis.ConnectionError, redis.TimeoutError, redis.OutOfMemoryError, redis.BusyLoadingError) as error:
                if wait.left() <= 0:
                    raise BusAway(f"the Redis server of the bus: {error}") from error
                time.sleep(PAUSE)
            except redis.RedisError as error:
                self.forget()  # the server may have lost its streams
                raise _error_of(error) from error

    def _hurry(self) -> None:
        """Connect anew, to wait for a server that hangs no longer than a program that is to stop may."""
        self._hurries, pool = True, self.client.connection_pool
        pool.disconnect()
        pool.reset()  # for connections keep the time that they were made with
        pool.connection_kwargs |= dict.fromkeys(("socket_timeout", "socket_connect_timeout"), self._patience.grace)

    def forget(self) -> None:
        """Have all streams declared again."""
        self._declared.clear()

    def declare(self, stream: Stream, *more: str, timeout: float = TIMEOUT) -> None:
        """Create a stream's groups, once. Raises BusError if the stream has another number of partitions."""
        groups = [group for group in (*stream.groups, *more) if (stream.name, group) not in self._declared]
        if not groups:
            return

        def create(client: Any) -> None:
            known = f"{stream.name}:partitions"
            client.setnx(known, stream.partitions)
            there = int(client.get(known))
            if there != stream.partitions:
                raise BusError(
                    f"stream {stream.name} has {there} partitions at the broker, not {stream.partitions}; use the same "
                    "settings everywhere"
                )
            for partition in range(stream.partitions):
                client.eval(_DECLARE, 1, _key(stream, partition), *groups)

        self.do(create, timeout)
        self._declared |= {(stream.name, group) for group in groups}


class RedisProducer:
    """A producer: messages are sent in batches, in one round trip each."""

    def __init__(self, server: _RedisClient, stream: Stream) -> None:
        self._server, self._stream = server, stream
        self._buffer: list[tuple[int, bytes]] = []
        self._buffered = 0

    def send(self, *messages: bytes, partition: int = 0) -> None:
        """Hand messages over; sends them if the buffer is full."""
        if not 0 <= partition < self._stream.partitions:
            raise BusError(f"stream {self._stream.name} has partitions 0 to {self._stream.partitions - 1}")
        self._buffer += [(partition, message) for message in messages]
        self._buffered += sum(map(len, messages))
        if len(self._buffer) >= BATCH_MESSAGES or self._buffered >= BATCH_BYTES:
            self.flush()

    def flush(self, timeout: float = TIMEOUT) -> None:
        """Return once the server has all messages. A batch is sent, and received, twice if its answer was lost."""
        deadline = time.monotonic() + timeout
        while self._buffer:
            self._server.declare(self._stream, timeout=deadline - time.monotonic())
            added = self._server.do(self._add, deadline - time.monotonic())
            if None in added:
                self._server.forget()  # it has lost its streams, and is given new ones
            self._buffer = [message for message, id in zip(self._buffer, added, strict=True) if id is None]
        self._buffered = 0

    def close(self) -> None:
        """Flush."""
        self.flush()

    def _add(self, client: Any) -> list[bytes | None]:
        pipeline = client.pipeline(transaction=True)
        for partition, data in self._buffer:
            keep = {} if self._stream.keep is None else {"maxlen": self._stream.keep, "approximate": True}
            pipeline.xadd(_key(self._stream, partition), {b"m": data}, id="0-*", nomkstream=True, **keep)
        added: list[bytes | None] = pipeline.execute()
        return added


class RedisConsumer:
    """A consumer, with the offsets that it has received and not committed."""

    def __init__(
        self,
        server: _RedisClient,
        stream: Stream,
        group: str,
        *,
        partitions: tuple[int, ...],
        start: Start | None,
        session: float,
    ) -> None:
        self._server, self._stream, self._group, self._name = server, stream, group, unique_name()
        self._bound, self._start, self._session = partitions, start, session
        self._joined = 0
        self._pending: dict[int, set[int]] = {}
        """The offsets that `poll` has returned and that were not committed, of each partition of this consumer."""
        self._fetched: list[Received] = []
        """Messages that `poll` has not returned yet."""
        self._in_doubt = False
        """Whether the server may have given messages in an answer that was lost."""

    @property
    def partitions(self) -> frozenset[int]:
        """The partitions that belong to this consumer as of its last poll."""
        return frozenset(self._pending)

    def poll(self, count: int = 512, timeout: float = 0.1) -> list[Received]:
        """Return up to `count` messages, waiting up to `timeout` seconds for the first."""
        self._server.declare(self._stream, self._group)
        deadline = time.monotonic() + timeout
        while True:
            self._own(self._server.do(self._share))
            left = deadline - time.monotonic()
            if not self._fetched and self._pending:
                self._server.do(partial(self._fetch, count=count, wait=min(left, self._session / 3)))
            received, self._fetched = self._fetched[:count], self._fetched[count:]
            for message in received:
                self._pending[message.partition].add(message.offset)
            left = deadline - time.monotonic()
            if received or left <= 0:
                return received
            if not self._pending:
                time.sleep(min(left, 0.05))

    def commit(self, offsets: Mapping[int, int] | None = None) -> None:
        """Record that messages were processed, and remove those no longer needed by any group."""

        def acknowledge(client: Any) -> None:
            for partition, pending in self._pending.items():
                done = [one for one in pending if offsets is None or one < offsets.get(partition, 0)]
                if done:
                    key = _key(self._stream, partition)
                    client.xack(key, self._group, *map(_id, done))
                    if self._stream.keep is None:
                        client.eval(_TRIM, 1, key)
                    pending.difference_update(done)

        self._server.do(acknowledge)

    def seek(self, partition: int, offset: int) -> None:
        """Go on with the message of an offset."""

        def move(client: Any) -> None:
            key = _key(self._stream, partition)
            while entries := client.xpending_range(key, self._group, "-", "+", 1000):
                client.xack(key, self._group, *(entry["message_id"] for entry in entries))
            client.xgroup_setid(key, self._group, f"0-{max(0, offset)}")

        self._server.do(move)
        if partition in self._pending:
            self._pending[partition] = set()
        self._fetched = [message for message in self._fetched if message.partition != partition]

    def close(self) -> None:
        """Leave the group, and let others claim uncommitted messages at once."""

        def leave(client: Any) -> None:
            client.zrem(self._members, self._member)
            for partition in range(self._stream.partitions):
                key = _key(self._stream, partition)
                while entries := client.xpending_range(key, self._group, "-", "+", 1000, self._name, idle=0):
                    fresh = [entry["message_id"] for entry in entries if entry["time_since_delivered"] < _LONG_IDLE / 2]
                    if not fresh:
                        break
                    client.xclaim(key, self._group, self._name, 0, fresh, idle=_LONG_IDLE, justid=True)
                    if len(entries) < 1000:
                        break

        if self._joined:
            self._server.do(leave, 1.0)
        self._pending, self._fetched, self._joined = {}, [], 0

    @property
    def _members(self) -> str:
        return f"{self._stream.name}:{self._group}:members"

    @property
    def _member(self) -> str:
        return f"{self._joined} {self._name} {','.join(map(str, self._bound))}"

    def _share(self, client: Any) -> dict[int, str]:
        """Say that this member is alive, and return the owners of partitions."""
        seconds, microseconds = client.time()
        now = seconds + microseconds / 1e6
        if not self._joined:
            self._joined = seconds * 1_000_000 + microseconds
            for partition in range(self._stream.partitions):
                client.eval(_FORGET, 1, _key(self._stream, partition), self._group, int(self._session * 3000))
        pipeline = client.pipeline(transaction=True)
        pipeline.zadd(self._members, {self._member: now + self._session})
        pipeline.zremrangebyscore(self._members, "-inf", now)
        pipeline.zrange(self._members, 0, -1)
        members = []
        for member in pipeline.execute()[-1]:
            joined, name, bound = member.decode().split(" ")
            members.append(Member(int(joined), name, tuple(int(one) for one in bound.split(",") if one)))
        return assign(self._stream.partitions, members)

    def _own(self, owners: dict[int, str]) -> None:
        """Take over the partitions that are this member's now, and move to the offsets of `start`."""
        mine = {partition for partition, owner in owners.items() if owner == self._name}
        for partition in set(self._pending) - mine:
            del self._pending[partition]  # its new owner claims the pending messages
        self._fetched = [message for message in self._fetched if message.partition in mine]
        for partition in sorted(mine - set(self._pending)):
            self._pending[partition] = set()
            offset = self._start(partition) if self._start is not None else None
            if offset is not None:
                self.seek(partition, offset)

    def _fetch(self, client: Any, count: int, wait: float) -> None:
        """Fetch the messages of a lost answer, those left by consumers that are gone, and new ones."""
        if self._in_doubt:
            self._fetch_own(client)
        self._in_doubt = True
        keys = {_key(self._stream, partition).encode(): partition for partition in self._pending}
        for key, partition in keys.items():
            idle = int(self._session * 1000)
            _, entries, _ = client.xautoclaim(key, self._group, self._name, idle, "0-0", count=count)
            self._take(partition, entries)
        block = int(wait * 1000) if wait > 0.001 and not self._fetched else None
        each = max(1, count // len(keys))  # the count of Redis is one for each stream
        answer = client.xreadgroup(self._group, self._name, dict.fromkeys(keys, ">"), count=each, block=block)
        for key, entries in answer.items() if isinstance(answer, dict) else answer or []:
            self._take(keys[key], entries)
        self._in_doubt = False

    def _fetch_own(self, client: Any) -> None:
        """Fetch all that the server has given to this consumer, and that has not arrived."""
        for partition in self._pending:
            key, after = _key(self._stream, partition), "0-0"
            while entries := client.xpending_range(key, self._group, f"({after}", "+", 1000, self._name):
                given = {entry["message_id"] for entry in entries}
                after = entries[-1]["message_id"].decode()
                between = client.xrange(key, entries[0]["message_id"], after)  # those of others, too
                self._take(partition, [message for message in between if message[0] in given])

    def _take(self, partition: int, entries: list[tuple[bytes, dict[bytes, bytes]]]) -> None:
        """Add fetched messages, unless they are there, or `poll` has returned them."""
        waiting = {message.offset for message in self._fetched if message.partition == partition}
        known = self._pending[partition] | waiting
        for id, fields in entries:
            if fields and (offset := _number(id) - 1) not in known:  # one dropped meanwhile has no fields
                self._fetched.append(Received(partition, offset, fields.get(b"m", b"")))


def _key(stream: Stream, partition: int) -> str:
    return f"{stream.name}:{partition}"


def _id(offset: int) -> str:
    return f"0-{offset + 1}"


def _number(id: bytes | str) -> int:
    text = id.decode() if isinstance(id, bytes) else id
    return int(text.partition("-")[2])
