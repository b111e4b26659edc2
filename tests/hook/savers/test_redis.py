"""RedisSaver keeps the contract, against a real server, and says so when that server is gone."""

from collections.abc import Iterator
from datetime import timedelta
from functools import partial

import pytest
import redis

from placet.errors import CheckpointConflict, Unavailable
from placet.hook.savers.redis import RedisSaver
from placet.hook.savers.saver import CheckpointRetention
from placet.testing.contracts.saver import HOUR, OpenSaver, SharedSaverContract, save_thread
from tests.hook.savers.servers import RedisProcess, running_redis
from tests.waiting import eventually


@pytest.fixture(scope="module")
def server() -> Iterator[RedisProcess]:
    with running_redis() as process:
        yield process


@pytest.fixture
def client(server: RedisProcess) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(server.url) as client:
        client.flushall()
        yield client


@pytest.fixture
def open_saver(server: RedisProcess, client: redis.Redis) -> OpenSaver:
    return partial(RedisSaver, server.url)


class TestRedisSaver(SharedSaverContract):
    pass


def test_a_server_without_memory_takes_nothing_and_keeps_what_it_had(
    open_saver: OpenSaver, client: redis.Redis
) -> None:
    saver = open_saver()
    checkpoint = save_thread(saver, 2)
    before = saver.list_checkpoints("thread")
    client.config_set("maxmemory", "1")
    try:
        with pytest.raises(Unavailable, match="Nothing was recorded"):
            saver.put(checkpoint.next(stage="paused"))
        with pytest.raises(Unavailable):
            saver.renew("thread", 2, lease_for=HOUR)
        assert saver.list_checkpoints("thread") == before
    finally:
        client.config_set("maxmemory", "0")
    saver.put(checkpoint.next(stage="paused"))
    saver.close()


def test_what_was_kept_survives_the_death_of_the_server(open_saver: OpenSaver, server: RedisProcess) -> None:
    saver = open_saver(timeout=timedelta(seconds=1))
    checkpoint = save_thread(saver, 3)
    before = saver.list_checkpoints("thread")
    server.kill()
    with pytest.raises(Unavailable):
        saver.get("thread")
    with pytest.raises(Unavailable):
        saver.put(checkpoint.next())
    server.start()
    assert saver.list_checkpoints("thread") == before
    saver.put(checkpoint.next())
    saver.close()


def test_a_write_that_is_sent_again_is_kept_once(open_saver: OpenSaver, client: redis.Redis) -> None:
    saver = open_saver()
    save_thread(saver, 1)
    keys = [b"{placet}:thread:thread", b"{placet}:texts:thread", b"{placet}:stage:ready"]
    given = [b"thread", 2, "ready", "{}", "token", -1, 0, 3, -1]
    script = saver._append_script  # type: ignore[attr-defined]
    assert [script(keys=keys, args=given) for _ in range(2)] == [b"saved", b"saved"]
    assert [one.checkpoint.rev for one in saver.list_checkpoints("thread")] == [2, 1]
    saver.close()


def test_savers_with_different_prefixes_do_not_meet(open_saver: OpenSaver) -> None:
    ours, theirs = open_saver(), open_saver(prefix="theirs")
    save_thread(ours, 1)
    assert theirs.get("thread") is None
    save_thread(theirs, 2)
    with pytest.raises(CheckpointConflict):
        save_thread(ours, 1)
    ours.close()
    theirs.close()


def test_a_client_of_ones_own_is_used_and_left_open(client: redis.Redis) -> None:
    saver = RedisSaver(client)
    save_thread(saver, 1)
    saver.close()
    with pytest.raises(Unavailable):
        saver.get("thread")
    assert client.ping()


def test_a_client_that_gives_text_is_refused(server: RedisProcess) -> None:
    with (
        redis.Redis.from_url(server.url, decode_responses=True) as client,
        pytest.raises(ValueError, match="decode_responses"),
    ):
        RedisSaver(client)


def test_a_thread_that_the_server_dropped_in_part_is_never_taken_for_whole_or_new(
    open_saver: OpenSaver, client: redis.Redis
) -> None:
    saver = open_saver(retain=CheckpointRetention(age=HOUR))
    checkpoint = save_thread(saver, 3)
    client.delete(b"{placet}:texts:thread")
    with pytest.raises(Unavailable, match="evicted the text of thread 'thread'"):
        saver.get("thread")
    assert saver.list_checkpoints("thread") == []
    with pytest.raises(CheckpointConflict):
        save_thread(saver, 1)
    saver.put(checkpoint.next(stage="paused"))
    assert [one.checkpoint.rev for one in saver.list_checkpoints("thread")] == [4]
    saver.release("thread")
    assert saver.get("thread") is None
    saver.close()


def test_a_server_that_falls_silent_leaves_open_whether_a_thread_was_kept(
    open_saver: OpenSaver, server: RedisProcess
) -> None:
    saver = open_saver(timeout=timedelta(seconds=2))
    checkpoint = save_thread(saver, 1)
    with server.frozen(), pytest.raises(Unavailable, match="whether anything was recorded is not known"):
        saver.put(checkpoint.next())
    eventually(lambda: len(saver.list_checkpoints("thread")) == 2)  # the server took it when it went on
    saver.close()


def test_a_server_that_only_reads_since_a_failover_is_left_for_the_one_that_writes(
    open_saver: OpenSaver, server: RedisProcess, client: redis.Redis
) -> None:
    saver = open_saver()
    checkpoint = save_thread(saver, 1)
    client.client_setname("test")
    theirs = {one["id"] for one in client.client_list() if one["name"] != "test"}
    client.replicaof("127.0.0.1", 1)
    try:
        with pytest.raises(Unavailable, match="Nothing was recorded"):
            saver.put(checkpoint.next())
    finally:
        client.replicaof("NO", "ONE")
    saver.put(checkpoint.next())
    assert theirs.isdisjoint(one["id"] for one in client.client_list())
    saver.close()


def test_a_wrong_password_is_not_taken_for_a_server_that_is_gone(
    server: RedisProcess, client: redis.Redis
) -> None:
    saver = RedisSaver(server.url.replace("redis://", "redis://:wrong-word@"))
    client.config_set("requirepass", "right-word")
    try:
        with pytest.raises(Unavailable, match="refused the credentials") as refused:
            saver.get("thread")
    finally:
        client.config_set("requirepass", "")
    assert "-word" not in refused.value.message
    saver.close()
