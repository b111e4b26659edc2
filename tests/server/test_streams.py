"""Event streams: straight from the log, replayed on return, over when the case is."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from placet.desk.api_keys import revoke_key
from tests.cli.process import serving
from tests.server.running import RunningServer, events_of, running
from tests.server.sse import open_stream
from tests.waiting import PATIENCE_S, eventually

INLINE = {"inline_actions": ["confirm", "cancel"]}
MANY = 200


@pytest.fixture
def hitl(server: RunningServer, client: httpx.Client) -> dict[str, Any]:
    return server.open(client, **INLINE)


def revoke(server: RunningServer, name: str) -> None:
    (key,) = [key for key in server.run(server.parts.store.list_api_keys()) if key.name == name]
    server.run(revoke_key(server.parts.store, key.id, server.clock()))


def open_page(server: RunningServer, hitl: dict[str, Any]) -> None:
    with server.page(hitl) as page:
        page.client.post(f"/review/{hitl['case_id']}/opened", data={"csrf": page.hidden_fields()["csrf"]})


def test_a_stream_tells_what_happens_and_ends_with_the_case(
    server: RunningServer, client: httpx.Client, hitl: dict[str, Any]
) -> None:
    with open_stream(client, hitl["events_url"]) as stream:
        assert stream.response.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert stream.response.headers["cache-control"] == "no-store"
        stream.read_until("retry: 2000\n\n")
        open_page(server, hitl)
        stream.read_until("event: review.opened\n")
        server.press(hitl, "confirm")
        events = stream.read_rest()
    assert [name for _, name, _ in events] == ["review.opened", "review.completed"]
    result = client.get(hitl["poll_url"]).json()["result"]
    assert events[-1][2]["result"] == result
    assert events[-1][2]["case_id"] == hitl["case_id"]


def test_ids_only_grow_and_a_caller_that_returns_hears_what_it_missed(
    server: RunningServer, client: httpx.Client, hitl: dict[str, Any]
) -> None:
    open_page(server, hitl)
    server.press(hitl, "cancel")
    with open_stream(client, hitl["events_url"]) as stream:
        everything = stream.read_rest()
    ids = [seq for seq, _, _ in everything]
    assert ids == sorted(set(ids))
    for missed, seq in enumerate(ids, start=1):
        with open_stream(client, hitl["events_url"], str(seq)) as stream:
            assert stream.read_rest() == everything[missed:]


def test_a_caller_that_has_seen_the_end_is_told_so_at_once(
    server: RunningServer, client: httpx.Client, hitl: dict[str, Any]
) -> None:
    server.press(hitl, "confirm")
    with open_stream(client, hitl["events_url"]) as stream:
        last = stream.read_rest()[-1][0]
    with open_stream(client, hitl["events_url"], str(last)) as stream:
        assert stream.read_rest() == []
    follow_up = server.open(client, previous_case_id=hitl["case_id"])
    assert follow_up["previous_case_id"] == hitl["case_id"]
    with open_stream(client, hitl["events_url"], str(last)) as stream:
        assert stream.read_rest() == []


@pytest.mark.parametrize(
    "bogus", ["0", "-1", "99", "1.5", "evt_init", "9" * 40, "१", "1; DROP", "null", "+2", "0x2"]
)
def test_an_id_that_is_none_of_ours_hears_everything(
    server: RunningServer, client: httpx.Client, hitl: dict[str, Any], bogus: str
) -> None:
    open_page(server, hitl)
    server.press(hitl, "confirm")
    headers = [(b"Last-Event-ID", bogus.encode())]
    events = events_of(client.get(hitl["events_url"], headers=headers).text)
    assert [name for _, name, _ in events] == ["review.opened", "review.completed"]


@pytest.mark.parametrize(("order", "name"), [("expire", "review.expired"), ("cancel", "review.cancelled")])
def test_every_end_ends_the_stream(
    server: RunningServer, client: httpx.Client, order: str, name: str
) -> None:
    hitl = server.open(client, timeout="1m")
    with open_stream(client, hitl["events_url"]) as stream:
        stream.read_until("retry")
        if order == "expire":
            server.advance(minutes=2)
            server.sweep()
        else:
            client.post(f"/v1/reviews/{hitl['case_id']}/cancel", json={"reason": "too late"})
        events = stream.read_rest()
    assert [event for _, event, _ in events] == [name]


def test_reminders_are_told(server: RunningServer, client: httpx.Client) -> None:
    reminder_at = server.clock() + timedelta(minutes=1)
    hitl = server.open(client, reminder_at=reminder_at.isoformat())
    with open_stream(client, hitl["events_url"]) as stream:
        stream.read_until("retry")
        server.advance(minutes=2)
        server.sweep()
        stream.read_until("event: review.reminder\n")
    assert "reminder_sent_at" not in client.get(hitl["poll_url"]).json()  # the agent reminds people


def test_a_stream_whose_key_was_revoked_ends_and_tells_nothing_more(server: RunningServer) -> None:
    with server.client(server.create_key("leaver")) as client:
        hitl = server.open(client, **INLINE)
        with open_stream(client, hitl["events_url"]) as stream:
            stream.read_until("retry: 2000\n\n")
            revoke(server, "leaver")
            server.advance(seconds=3)
            server.press(hitl, "confirm")
            assert stream.read_rest() == []


def test_an_idle_stream_is_kept_alive_by_comments(
    server: RunningServer, client: httpx.Client, hitl: dict[str, Any]
) -> None:
    async def beat() -> None:
        server.parts.streams.beat()

    with open_stream(client, hitl["events_url"]) as stream:
        stream.read_until("retry: 2000\n\n")
        server.run(beat())
        stream.read_until(": still here\n\n")
        server.press(hitl, "confirm")
        assert [name for _, name, _ in stream.read_rest()] == ["review.completed"]


def test_head_opens_no_stream(server: RunningServer, client: httpx.Client, hitl: dict[str, Any]) -> None:
    response = client.head(hitl["events_url"])
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/event-stream")
    assert eventually(lambda: len(server.parts.streams) == 0)


def test_a_caller_that_leaves_is_forgotten(
    server: RunningServer, client: httpx.Client, hitl: dict[str, Any]
) -> None:
    eventually(lambda: len(server.parts.streams) == 0)
    with open_stream(client, hitl["events_url"]) as stream:
        stream.read_until("retry")
        assert len(server.parts.streams) == 1
    eventually(lambda: len(server.parts.streams) == 0)
    assert server.press(hitl, "confirm").status_code == 200


def test_a_caller_that_breaks_off_in_the_middle_is_forgotten(
    server: RunningServer, hitl: dict[str, Any]
) -> None:
    address = urlsplit(hitl["events_url"])
    eventually(lambda: len(server.parts.streams) == 0)
    with socket.create_connection((address.hostname, address.port), timeout=PATIENCE_S) as connection:
        head = f"GET {address.path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.api_key}\r\n\r\n"
        connection.sendall(head.encode())
        assert b"200 OK" in connection.recv(4096)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")  # reset, no goodbye
    eventually(lambda: len(server.parts.streams) == 0)
    assert server.press(hitl, "confirm").status_code == 200


def test_all_callers_of_a_case_hear_the_same(
    server: RunningServer, client: httpx.Client, hitl: dict[str, Any]
) -> None:
    begun = threading.Barrier(9)

    def listen() -> list[Any]:
        with server.client(server.api_key) as own, open_stream(own, hitl["events_url"]) as stream:
            stream.read_until("retry")
            begun.wait(PATIENCE_S)
            return stream.read_rest()

    with ThreadPoolExecutor(8) as pool:
        heard = [pool.submit(listen) for _ in range(8)]
        begun.wait(PATIENCE_S)
        server.press(hitl, "confirm")
        events = [one.result(PATIENCE_S) for one in heard]
    assert all(one == events[0] for one in events)
    assert [name for _, name, _ in events[0]] == ["review.completed"]


@pytest.mark.anyio
async def test_many_streams_at_once_each_hear_their_own_case(server: RunningServer) -> None:
    async with httpx.AsyncClient(
        headers={"Authorization": f"Bearer {server.api_key}"},
        limits=httpx.Limits(max_connections=None),
        timeout=PATIENCE_S,
    ) as client:
        draft = {"type": "confirmation", "prompt": "Go?", **INLINE}
        answers = [await client.post(f"{server.url}/v1/cases", json=draft) for _ in range(MANY)]
        opened = [answer.json()["hitl"] for answer in answers]
        streams = await asyncio.gather(*(_open_stream(server, hitl) for hitl in opened))
        assert len(server.parts.streams) >= MANY
        for hitl in opened:
            press = {"Authorization": f"Bearer {hitl['submit_token']}"}
            body = {"action": "confirm", "submitted_via": "x-test"}
            by = {"submitted_by": {"platform": "x-test", "platform_user_id": "1"}}
            await client.post(hitl["submit_url"], json={**body, **by}, headers=press)
        texts = await asyncio.wait_for(asyncio.gather(*(reader.read() for reader, _ in streams)), PATIENCE_S)
        for _, writer in streams:
            writer.close()
    for hitl, text in zip(opened, texts, strict=True):
        assert f'"case_id":"{hitl["case_id"]}"'.encode() in text
        assert text.count(b"event: review.completed") == 1


async def _open_stream(
    server: RunningServer, hitl: dict[str, Any]
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    address = urlsplit(hitl["events_url"])
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    head = f"GET {address.path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
    writer.write(f"{head}Authorization: Bearer {server.api_key}\r\n\r\n".encode())
    await reader.readuntil(b"retry: 2000\n\n")
    return reader, writer


@pytest.fixture(scope="module")
def two_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str, str]]:
    """Two server processes on one database, and the key of their owner."""
    folder = tmp_path_factory.mktemp("neighbours")
    with serving(folder) as one:
        one.url()
        with serving(folder) as other:
            yield one.url(), other.url(), one.admin_key


def test_what_another_process_writes_wakes_the_stream(two_servers: tuple[str, str, str]) -> None:
    here, there, key = two_servers
    headers = {"Authorization": f"Bearer {key}"}
    with httpx.Client(headers=headers, timeout=PATIENCE_S) as client:
        hitl = client.post(f"{here}/v1/cases", json={"type": "confirmation", "prompt": "Go?"}).json()["hitl"]
        with open_stream(client, hitl["events_url"]) as stream:
            stream.read_until("retry")
            client.post(f"{there}/v1/reviews/{hitl['case_id']}/cancel", json={"reason": "from next door"})
            events = stream.read_rest()
    assert events[-1][2]["reason"] == "from next door"


def test_a_stopping_server_ends_its_streams_and_they_go_on_after_the_restart(tmp_path: Path) -> None:
    with running(tmp_path) as first, first.client(first.api_key) as client:
        hitl = first.open(client, **INLINE)
        open_page(first, hitl)
        with open_stream(client, hitl["events_url"]) as stream:
            stream.read_until("event: review.opened")
            ended = threading.Thread(target=first.run, args=(first.parts.streams.close(),))
            ended.start()
            seen = stream.read_rest()[-1][0]
            ended.join(PATIENCE_S)
        key = first.api_key
    with running(tmp_path) as second, second.client(key) as client:
        url = f"{second.url}/v1/reviews/{hitl['case_id']}/events"
        with open_stream(client, url, str(seen)) as stream:
            stream.read_until("retry")
            second.press({**hitl, "submit_url": url.replace("events", "respond")}, "confirm")
            assert [name for _, name, _ in stream.read_rest()] == ["review.completed"]
