"""Outgoing requests: to whom they go, what they carry, how much they read, and when they end."""

import asyncio
import gc
import ssl
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from placet import __version__
from placet.deliveries import guarded_http
from placet.deliveries.guarded_http import GuardedHttp
from placet.deliveries.guarded_resolver import MAX_ADDRESSES, GuardedResolver, SystemLookup
from placet.errors import AddressRefused, Unreachable
from placet.ports.fetcher import Fetcher
from tests.certificates import make_tls_contexts
from tests.deliveries.receiver import Receiver, ScriptedLookup, guarded, listening, saying

pytestmark = pytest.mark.anyio

SOON = timedelta(seconds=10)
AT_ONCE = timedelta(seconds=0.2)
HOST = "hooks.example.com"


@pytest.fixture
def tls(tmp_path: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    return make_tls_contexts(HOST, tmp_path)


async def test_request_arrives_as_it_was_given(http: GuardedHttp, receiver: Receiver) -> None:
    reply = await http.request(
        "POST",
        receiver.url("/hook?a=%20b"),
        body=b'{"x": 1}',
        headers={"Content-Type": "application/json", "webhook-id": "msg_1"},
        timeout_for=SOON,
        max_bytes=1000,
    )
    assert (reply.status, reply.body, reply.truncated) == (200, b'{"secret": "of the receiver"}', False)
    (request,) = receiver.requests
    assert (request.method, request.raw_path, receiver.bodies) == ("POST", "/hook?a=%20b", [b'{"x": 1}'])
    assert request.headers["Content-Type"] == "application/json"
    assert request.headers["webhook-id"] == "msg_1"


async def test_nothing_of_ours_travels_along(
    http: GuardedHttp, receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password secret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1/")
    for _ in range(2):
        await http.fetch(receiver.url(), timeout_for=SOON, max_bytes=1000)
    for request in receiver.requests:
        assert set(request.headers) == {"Host", "User-Agent", "Accept", "Accept-Encoding"}
        assert request.headers["User-Agent"] == f"placet/{__version__}"
        assert request.headers["Accept-Encoding"] == "identity"


async def test_redirect_is_an_answer_and_not_followed(http: GuardedHttp, receiver: Receiver) -> None:
    reply = await http.fetch(receiver.url("/redirect"), timeout_for=SOON, max_bytes=1000)
    assert reply.status == 302
    assert [request.path for request in receiver.requests] == ["/redirect"]


async def test_endless_body_is_cut_and_the_connection_closed(http: GuardedHttp, receiver: Receiver) -> None:
    reply = await http.fetch(receiver.url("/huge"), timeout_for=SOON, max_bytes=100_000)
    assert (reply.body, reply.truncated) == (b"x" * 100_000, True)
    async with asyncio.timeout(60):
        await receiver.release.wait()


async def test_body_of_exactly_the_limit_is_whole(http: GuardedHttp, receiver: Receiver) -> None:
    size = len(b'{"secret": "of the receiver"}')
    reply = await http.fetch(receiver.url(), timeout_for=SOON, max_bytes=size)
    assert (len(reply.body), reply.truncated) == (size, False)
    shorter = await http.fetch(receiver.url(), timeout_for=SOON, max_bytes=size - 1)
    assert (len(shorter.body), shorter.truncated) == (size - 1, True)


@pytest.mark.parametrize("path", ["/slow", "/silent"])
async def test_slow_answer_ends_in_time(http: GuardedHttp, receiver: Receiver, path: str) -> None:
    with pytest.raises(Unreachable, match="did not answer in time"):
        await http.fetch(receiver.url(path), timeout_for=AT_ONCE, max_bytes=1000)


async def test_compressed_answer_is_neither_unpacked_nor_taken(http: GuardedHttp, receiver: Receiver) -> None:
    reply = await http.request("GET", receiver.url("/bomb"), timeout_for=SOON, max_bytes=10_000_000)
    assert len(reply.body) < 10_000
    with pytest.raises(Unreachable, match="compressed"):
        await http.fetch(receiver.url("/bomb"), timeout_for=SOON, max_bytes=10_000_000)


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.9\r\n",
        b"HTTP/1.1\r\n\r\n",
        b"HTTP/9.9 200 OK\r\n\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nsecret-of-the-receiver\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
        b"HTTP/1.1 200 OK\r\nsecret-of-the-receiver\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: x\r\n" * 10_000 + b"\r\n",
        b"\x16\x03\x01\x00\xff" * 100,
    ],
)
async def test_nonsense_is_unreachable_and_not_quoted(http: GuardedHttp, said: bytes) -> None:
    async with saying(said) as url:
        with pytest.raises(Unreachable) as failure:
            await http.fetch(url, timeout_for=SOON, max_bytes=1000)
    assert "secret" not in failure.value.message


@pytest.mark.parametrize(
    "header",
    [b"Set-Cookie: \x00=\xff; a", b"Content-Type: \xff", b"Location: http://[", b"Retry-After: \xff"],
)
async def test_strange_headers_do_no_harm(http: GuardedHttp, header: bytes) -> None:
    async with saying(b"HTTP/1.1 302 Found\r\n" + header + b"\r\nContent-Length: 0\r\n\r\n") as url:
        with suppress(Unreachable):
            assert (await http.fetch(url, timeout_for=SOON, max_bytes=1000)).status == 302


async def test_closed_port_is_unreachable(http: GuardedHttp) -> None:
    async with saying(b"") as url:
        pass
    with pytest.raises(Unreachable, match="no connection could be made"):
        await http.fetch(url, timeout_for=SOON, max_bytes=1000)


async def test_loopback_is_refused_unless_allowed(receiver: Receiver) -> None:
    async with guarded() as http:
        for host in ("127.0.0.1", "localhost"):
            with pytest.raises(AddressRefused):
                await http.fetch(receiver.url(host=host), timeout_for=SOON, max_bytes=1000)
    assert receiver.requests == []


async def test_localhost_is_this_machine_without_asking_anyone(receiver: Receiver) -> None:
    lookup = ScriptedLookup(localhost=[["93.184.216.34"]])
    async with guarded(allow_loopback=True, lookup=lookup) as http:
        reply = await http.fetch(receiver.url(host="localhost"), timeout_for=SOON, max_bytes=1000)
    assert reply.status == 200
    assert lookup.asked == []


async def test_name_is_looked_up_once_and_the_connection_goes_there(tls) -> None:
    served, trusting = tls
    lookup = ScriptedLookup(hooks_example_com=[["127.0.0.1"], ["10.0.0.1"]])
    async with (
        listening(served) as receiver,
        guarded(allow_loopback=True, lookup=lookup, tls=trusting) as http,
    ):
        reply = await http.fetch(receiver.url(host=HOST), timeout_for=SOON, max_bytes=1000)
        assert reply.status == 200
        assert receiver.requests[0].host == f"{HOST}:{receiver.port}"
    assert lookup.asked == [HOST]


async def test_name_that_moves_to_a_forbidden_address_is_refused_then(tls) -> None:
    served, trusting = tls
    lookup = ScriptedLookup(hooks_example_com=[["127.0.0.1"], ["127.0.0.1"], ["10.0.0.1"]])
    async with (
        listening(served) as receiver,
        guarded(allow_loopback=True, lookup=lookup, tls=trusting) as http,
    ):
        await http.check_resolves(receiver.url(host=HOST))
        await http.fetch(receiver.url(host=HOST), timeout_for=SOON, max_bytes=1000)
        await http.aclose()
        with pytest.raises(AddressRefused, match="private"):
            await http.fetch(receiver.url(host=HOST), timeout_for=SOON, max_bytes=1000)
        assert len(receiver.requests) == 1


@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.1", "10.0.0.1"],
        ["8.8.8.8", "169.254.169.254"],
        ["2606:4700::1111", "fd00:ec2::254"],
        ["::ffff:127.0.0.1"],
        ["64:ff9b::7f00:1"],
        ["2002:7f00:1::"],
        ["fe80::1%eth0"],
        ["not an address"],
    ],
)
async def test_one_forbidden_address_refuses_the_name(addresses: list[str]) -> None:
    lookup = ScriptedLookup(hooks_example_com=[addresses, addresses])
    async with guarded(allow_loopback=True, lookup=lookup) as http:
        with pytest.raises(AddressRefused):
            await http.fetch(f"https://{HOST}/", timeout_for=SOON, max_bytes=1000)
        with pytest.raises(AddressRefused):
            await http.check_resolves(f"https://{HOST}/")


async def test_certificate_of_another_name_is_not_accepted(tls) -> None:
    served, trusting = tls
    lookup = ScriptedLookup(other_example_com=[["127.0.0.1"]], hooks_example_com=[["127.0.0.1"]])
    async with (
        listening(served) as receiver,
        guarded(allow_loopback=True, lookup=lookup, tls=trusting) as http,
    ):
        with pytest.raises(Unreachable, match="certificate"):
            await http.fetch(receiver.url(host="other.example.com"), timeout_for=SOON, max_bytes=1000)
    async with listening(served) as receiver, guarded(allow_loopback=True, lookup=lookup) as http:
        with pytest.raises(Unreachable, match="certificate"):
            await http.fetch(receiver.url(host=HOST), timeout_for=SOON, max_bytes=1000)
    assert receiver.requests == []


async def test_plain_http_where_tls_was_asked_for_is_unreachable(receiver: Receiver) -> None:
    lookup = ScriptedLookup(hooks_example_com=[["127.0.0.1"]])
    async with guarded(allow_loopback=True, lookup=lookup) as http:
        with pytest.raises(Unreachable, match="TLS"):
            await http.fetch(f"https://{HOST}:{receiver.port}/", timeout_for=SOON, max_bytes=1000)


async def test_unknown_name_is_unreachable_but_passes_the_check_ahead() -> None:
    lookup = ScriptedLookup(empty_example_com=[[], []])
    async with guarded(lookup=lookup) as http:
        for host in (HOST, "empty.example.com"):
            await http.check_resolves(f"https://{host}/")
            with pytest.raises(Unreachable, match="name could not be resolved"):
                await http.fetch(f"https://{host}/", timeout_for=SOON, max_bytes=1000)


async def test_name_server_that_never_answers_does_not_hold_up_the_check(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(guarded_http, "LOOKUP_TIMEOUT", AT_ONCE)

    async def never(host: str) -> list[str]:
        await asyncio.Event().wait()
        return []

    async with guarded(lookup=never) as http, asyncio.timeout(60):
        await http.check_resolves(f"https://{HOST}/")
        with pytest.raises(Unreachable, match="in time"):
            await http.fetch(f"https://{HOST}/", timeout_for=AT_ONCE, max_bytes=1000)


async def test_check_ahead_refuses_forbidden_urls_without_a_lookup() -> None:
    lookup = ScriptedLookup()
    async with guarded(lookup=lookup) as http:
        for url in ("https://10.0.0.1/", "https://localhost/", "http://hooks.example.com/", "nonsense"):
            with pytest.raises(AddressRefused):
                await http.check_resolves(url)
        await http.check_resolves("https://8.8.8.8/")
    assert lookup.asked == []


async def test_name_with_very_many_addresses_is_pinned_to_a_few() -> None:
    many = [f"8.8.{number}.8" for number in range(100)]
    resolver = GuardedResolver(ScriptedLookup(hooks_example_com=[many * 2]))
    assert [pin["host"] for pin in await resolver.resolve(HOST, 443)] == many[:MAX_ADDRESSES]


async def test_system_lookup_knows_this_machine_and_restarts_after_closing() -> None:
    lookup = SystemLookup()
    for _ in range(2):
        assert "127.0.0.1" in await lookup("localhost")
        lookup.close()


async def test_client_opens_nothing_until_used_and_leaves_nothing_open(receiver: Receiver) -> None:
    unused = GuardedHttp()
    await unused.aclose()
    client: Fetcher = GuardedHttp(allow_loopback=True)
    assert isinstance(client, GuardedHttp)
    for _ in range(2):
        await client.fetch(receiver.url(), timeout_for=SOON, max_bytes=1000)
        await client.aclose()
    del client, unused
    gc.collect()
