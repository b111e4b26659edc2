"""Threads in Redis: shared by machines, updated by scripts, with leases by the server's clock."""

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, get_args

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    ConnectionError,
    ReadOnlyError,
    RedisError,
    TimeoutError,
)
from redis.retry import Retry

from placet.errors import CheckpointConflict, HookError, ThreadBusy, Unavailable
from placet.hook.checkpoint import Checkpoint, Stage
from placet.hook.savers.encoding import decode_thread_id, duration_to_micros, encode_thread_id, read_saved
from placet.hook.savers.saver import WRITE_UNCERTAIN, CheckpointRetention, SavedCheckpoint, Saver

DEFAULT_TIMEOUT = timedelta(seconds=5)
STAGES: tuple[Stage, ...] = get_args(Stage)

NOW = """
local function now()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end
local function whole(number) return string.format('%.0f', number) end
"""
# KEYS: thread, texts, then one index of threads per stage, that of the new stage first.
APPEND = f"""{NOW}
local thread, texts = KEYS[1], KEYS[2]
local id, rev, stage, text, token = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5]
local lease, claiming, count, age = tonumber(ARGV[6]), ARGV[7] == '1', tonumber(ARGV[8]), tonumber(ARGV[9])
local head = redis.call('HMGET', thread, 'rev', 'oldest', 'leased_until', 'token')
local at = now()
-- A client that lost the connection may send the same write again.
if head[4] == token then return 'saved' end
if claiming and tonumber(head[3] or 0) > at then return 'busy' end
if tonumber(head[1] or 0) ~= rev - 1 then return 'conflict' end
local leased_until = lease >= 0 and whole(at + lease) or '0'
local oldest = tonumber(head[2] or rev)
redis.call('HSET', texts, rev .. ':stage', stage, rev .. ':at', whole(at), rev .. ':text', text)
while oldest < rev and (oldest <= rev - count
    or (age >= 0 and tonumber(redis.call('HGET', texts, oldest .. ':at') or 0) < at - age)) do
  redis.call('HDEL', texts, oldest .. ':stage', oldest .. ':at', oldest .. ':text')
  oldest = oldest + 1
end
redis.call('HSET', thread, 'rev', rev, 'oldest', oldest, 'leased_until', leased_until, 'token', token)
redis.call('ZADD', KEYS[3], whole(at), id)
for index = 4, #KEYS do redis.call('ZREM', KEYS[index], id) end
return 'saved'
"""
RENEW = f"""{NOW}
if tonumber(redis.call('HGET', KEYS[1], 'rev') or -1) ~= tonumber(ARGV[1]) then return 'conflict' end
redis.call('HSET', KEYS[1], 'leased_until', whole(now() + tonumber(ARGV[2])))
return 'saved'
"""
# ARGV: how many checkpoints, newest first. Returns the lease, then rev, stage, time and text of each.
READ = """
local head = redis.call('HMGET', KEYS[1], 'rev', 'oldest', 'leased_until')
if not head[1] then return {} end
local found = {head[3]}
local newest, oldest = tonumber(head[1]), tonumber(head[2])
for rev = newest, math.max(oldest, newest - tonumber(ARGV[1]) + 1), -1 do
  found[#found + 1] = rev
  for _, column in ipairs(redis.call('HMGET', KEYS[2], rev .. ':stage', rev .. ':at', rev .. ':text')) do
    found[#found + 1] = column
  end
end
return found
"""
COLUMNS = 4
ALL = 2**31
REFUSALS: dict[bytes, type[HookError]] = {b"busy": ThreadBusy, b"conflict": CheckpointConflict}


class RedisSaver(Saver):
    """Saves threads in Redis at `server`, a URL or a client; needs the extra `placet[redis]`, no modules.

    Checkpoints are as durable as the server: with `appendonly yes` and `appendfsync always` a write is on
    disk when it returns; with less, a server crash can undo the last writes. Redis must not evict: set
    `maxmemory-policy noeviction`. All keys have one hash tag, so a cluster stores them in one slot.
    """

    def __init__(
        self,
        server: str | Redis,
        *,
        retain: CheckpointRetention | None = None,
        prefix: str = "placet",
        timeout: timedelta = DEFAULT_TIMEOUT,
    ) -> None:
        self._retain = retain or CheckpointRetention()
        self._prefix = f"{{{prefix}}}:".encode()
        self._owned = isinstance(server, str)
        self._client = _connect(server, timeout) if isinstance(server, str) else server
        if self._client.get_encoder().decode_responses:
            raise ValueError(
                "server: use a Redis client without decode_responses, because the saver reads bytes."
            )
        self._closed = False
        self._append_script = self._client.register_script(APPEND)
        self._renew_script = self._client.register_script(RENEW)
        self._read_script = self._client.register_script(READ)

    def get(self, thread_id: str) -> SavedCheckpoint | None:
        rows = self._read_rows(thread_id, 1)
        if rows and None in rows[0]:
            raise Unavailable(
                f"Redis has evicted the text of thread {thread_id!r}; release it, and set noeviction."
            )
        return _saved_checkpoint_from_row(thread_id, rows[0]) if rows else None

    def put(self, checkpoint: Checkpoint, *, lease_for: timedelta | None = None) -> None:
        self._append(checkpoint, lease_for)

    def claim(self, checkpoint: Checkpoint, *, lease_for: timedelta) -> None:
        self._append(checkpoint, lease_for, claiming=True)

    def renew(self, thread_id: str, rev: int, *, lease_for: timedelta) -> None:
        with self._translate_errors():
            answer = self._renew_script(
                keys=self._build_keys(thread_id)[:1], args=[rev, duration_to_micros(lease_for)]
            )
        _check_answer(answer)

    def list_checkpoints(self, thread_id: str) -> Sequence[SavedCheckpoint]:
        return [
            _saved_checkpoint_from_row(thread_id, row)
            for row in self._read_rows(thread_id, ALL)
            if None not in row
        ]

    def list_threads(self, stage: Stage) -> Sequence[str]:
        with self._translate_errors():
            members: Any = self._client.zrange(self._index(stage), 0, -1)
        return [decode_thread_id(member) for member in members]

    def release(self, thread_id: str) -> None:
        with self._translate_errors(), self._client.pipeline(transaction=True) as together:
            together.delete(*self._build_keys(thread_id))
            for stage in STAGES:
                together.zrem(self._index(stage), encode_thread_id(thread_id))
            together.execute()

    def close(self) -> None:
        self._closed = True
        if self._owned:
            self._client.close()

    def _append(self, checkpoint: Checkpoint, lease_for: timedelta | None, *, claiming: bool = False) -> None:
        others = [self._index(stage) for stage in STAGES if stage != checkpoint.stage]
        keys = [*self._build_keys(checkpoint.thread_id), self._index(checkpoint.stage), *others]
        given: Sequence[bytes | str | int] = [
            encode_thread_id(checkpoint.thread_id),
            checkpoint.rev,
            checkpoint.stage,
            checkpoint.to_json(),
            secrets.token_hex(8),
            -1 if lease_for is None else duration_to_micros(lease_for),
            int(claiming),
            self._retain.count,
            -1 if self._retain.age is None else duration_to_micros(self._retain.age),
        ]
        with self._translate_errors():
            answer = self._append_script(keys=keys, args=given)
        _check_answer(answer)

    def _read_rows(self, thread_id: str, count: int) -> Sequence[Any]:
        """Return rev, stage, time, text and lease of the newest checkpoints; None for evicted values."""
        with self._translate_errors():
            found: Any = self._read_script(keys=self._build_keys(thread_id), args=[count])
        rows = [found[start : start + COLUMNS] for start in range(1, len(found), COLUMNS)]
        return [[*row, 0 if index else int(found[0])] for index, row in enumerate(rows)]

    def _build_keys(self, thread_id: str) -> Sequence[bytes]:
        key = encode_thread_id(thread_id)
        return [self._prefix + b"thread:" + key, self._prefix + b"texts:" + key]

    def _index(self, stage: Stage) -> bytes:
        return self._prefix + b"stage:" + stage.encode()

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        if self._closed:
            raise Unavailable("The saver is closed.")
        try:
            yield
        except (AuthenticationError, AuthorizationError) as error:
            raise Unavailable(f"Redis refused the credentials: {error}") from error
        except (ConnectionError, TimeoutError) as error:
            raise Unavailable(WRITE_UNCERTAIN) from error
        except RedisError as error:
            if isinstance(error, ReadOnlyError):
                # After a failover the primary is another server: reconnect.
                self._client.connection_pool.disconnect(inuse_connections=False)
            raise Unavailable from error


def _connect(url: str, timeout: timedelta) -> Redis:
    seconds = timeout.total_seconds()
    return Redis.from_url(
        url, socket_timeout=seconds, socket_connect_timeout=seconds, retry=Retry(NoBackoff(), 1)
    )


def _saved_checkpoint_from_row(thread_id: str, row: Sequence[Any]) -> SavedCheckpoint:
    rev, stage, at, text, lease = row
    return read_saved(thread_id, int(rev), stage.decode(), text.decode(), int(at), lease or None)


def _check_answer(answer: bytes) -> None:
    if answer in REFUSALS:
        raise REFUSALS[answer]
