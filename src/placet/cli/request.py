"""`placet request`: send an HTTP request, and wait for the decision if the service needs a person."""

import asyncio
import math
import os
import re
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import httpx
import msgspec

from placet.agent import PendingCase, read_case
from placet.agent.responses import (
    MAX_BODY_BYTES,
    SUBMIT_TIMEOUT_S,
    USER_AGENT,
    require_safe_encoding,
    select_credentials,
)
from placet.agent.trust import parse_origin
from placet.cli import results
from placet.cli.case_waiting import CaseWait, WaitOptions, follow, run, wait_options
from placet.cli.client_options import get_default_server
from placet.errors import AddressRefused, Unreachable, UnreadableAnswer

TIMEOUT = httpx.Timeout(
    20.0, read=300.0
)  # the request may take long; the wait for a person has its own limit
MAX_PRINTED_BYTES = 64 * 1024 * 1024
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
Headers = list[tuple[bytes, bytes]]


def read_data(ctx: click.Context, param: click.Parameter, value: str | None) -> bytes | None:
    """Return the body: text, the content of @file, or - for standard input."""
    if value is None:
        return None
    if value in ("-", "@-"):
        return sys.stdin.buffer.read()
    return _read_file(value[1:], param) if value.startswith("@") else os.fsencode(value)


def read_headers(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> Headers:
    """Parse headers: 'Name: value', or @file with one per line, so that `ps` does not show secrets."""
    lines: list[bytes] = []
    for value in values:
        lines += _read_file(value[1:], param).splitlines() if value.startswith("@") else [os.fsencode(value)]
    return [_parse_header(line, param) for line in lines if line.strip()]


def add_header_option(command: Any) -> Any:
    """Return the option -H."""
    return click.option(
        "-H",
        "--header",
        "headers",
        multiple=True,
        metavar="'NAME: VALUE'|@FILE",
        callback=read_headers,
        help="Request header, or a file with one per line. Repeatable.",
    )(command)


@click.command()
@click.argument("method", metavar="METHOD")
@click.argument("url", metavar="URL")
@click.option(
    "-d",
    "--data",
    metavar="JSON|@FILE|-",
    callback=read_data,
    help="Request body: JSON, a file, or standard input. If it is not JSON, set its Content-Type with -H.",
)
@add_header_option
@wait_options()
def request(method: str, url: str, data: bytes | None, headers: Headers, how: WaitOptions) -> None:
    """Send an HTTP request, and wait for the decision if it needs one.

    Exit codes: 0 an affirmative action (approve, select, submit, confirm, retry, skip, or what a custom type
    declares), or no decision was needed and the response body is printed; 10 any other action; 11 expired; 12
    cancelled; 13 still open after --max-wait; 1 error; 2 usage error, and nothing was sent.
    """
    call = _build_checked_request(method, url, data, headers)

    async def perform(waiting: CaseWait) -> None:
        pending = await send(call, how)
        if pending is not None:
            await follow(pending, waiting)

    run(perform, how)


async def send(call: httpx.Request, how: WaitOptions) -> PendingCase | None:
    """Send the request; return the case it creates, or None after printing the response."""
    async with _open_response(call) as response:
        return await _read(response, how)


async def send_and_read(
    call: httpx.Request, *, check: Callable[[httpx.Response], None] | None = None, within_s: float = math.inf
) -> tuple[httpx.Response, bytes]:
    """Send a request with a small response; `check` may refuse it by its head.

    Raises Unreachable or UnreadableAnswer.
    """
    try:
        async with (
            asyncio.timeout(None if within_s == math.inf else within_s),
            _open_response(call) as response,
        ):
            if check is not None:
                check(response)
            return response, await _read_all(response, MAX_BODY_BYTES)
    except TimeoutError:
        raise UnreadableAnswer(f"The service does not answer within {within_s:.0f} seconds.") from None


@asynccontextmanager
async def _open_response(call: httpx.Request) -> AsyncIterator[httpx.Response]:
    try:
        async with httpx.AsyncClient(follow_redirects=False) as http:
            response = await http.send(call, stream=True)
            try:
                yield response
            finally:
                await response.aclose()
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        origin = f"{call.url.scheme}://{call.url.netloc.decode()}"
        raise Unreachable(f"{origin} cannot be reached: {str(error) or type(error).__name__}.") from error


async def _read(response: httpx.Response, how: WaitOptions) -> PendingCase | None:
    if response.status_code == 202:
        content = await _read_all(response, MAX_BODY_BYTES)
        case = read_case(202, content, url=str(response.url), now=datetime.now(UTC))
        if case is not None:
            return PendingCase(case=case, credentials=select_credentials(response.request))
        _print_whole(response, content, how)
    elif how.as_json:
        _print_whole(response, await _read_all(response, MAX_PRINTED_BYTES, within_s=math.inf), how)
    else:
        show = results.create_body_printer()
        async for chunk in response.aiter_bytes():
            show(chunk)
        results.end_line()
    if not response.is_success:
        raise click.exceptions.Exit(_report_refusal(response))
    return None


def _report_refusal(response: httpx.Response) -> int:
    to = f" (to {response.headers.get('location')!a})" if response.is_redirect else ""
    click.echo(f"placet: The service answered HTTP {response.status_code}{to}.", err=True)
    return results.FAILED


def _print_whole(response: httpx.Response, content: bytes, how: WaitOptions) -> None:
    if not how.as_json:
        results.create_body_printer()(content)
        results.end_line()
        return
    status = "answered" if response.is_success else "error"
    results.print_result(
        {"status": status, "http_status": response.status_code, "body": _decode_body(content)}
    )


def _decode_body(content: bytes) -> Any:
    """Return decoded JSON, or the text if it is not JSON."""
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return content.decode("utf-8", "replace")


async def _read_all(response: httpx.Response, most: int, *, within_s: float = SUBMIT_TIMEOUT_S) -> bytes:
    require_safe_encoding(response)
    content, until = bytearray(), time.monotonic() + within_s
    async for chunk in response.aiter_bytes():
        content += chunk
        if len(content) > most:
            raise UnreadableAnswer(f"The service's answer is larger than {most // 1024 // 1024} MiB.")
        if time.monotonic() > until:
            raise UnreadableAnswer(f"The service's answer does not end within {within_s:.0f} seconds.")
    return bytes(content)


def _build_checked_request(method: str, url: str, data: bytes | None, headers: Headers) -> httpx.Request:
    if not _TOKEN.fullmatch(method):
        raise click.BadParameter("this is not an HTTP method.", param_hint="METHOD")
    named = {name.lower() for name, _ in headers}
    if data is not None and b"content-type" not in named:
        _require_json(data)
        headers = [*headers, (b"Content-Type", b"application/json")]
    return build_request(method.upper(), url, data, headers)


def build_request(method: str, url: str, data: bytes | None, headers: Headers) -> httpx.Request:
    """Return the request, with the key if it goes to the Placet server. An invalid URL is a usage error."""
    try:
        parse_origin(url)
        return httpx.Request(
            method,
            url,
            content=data,
            headers=[*headers, *_add_default_headers(url, headers)],
            extensions={"timeout": TIMEOUT.as_dict()},
        )
    except (AddressRefused, httpx.InvalidURL) as error:
        raise click.BadParameter("write the whole URL: https://…", param_hint="URL") from error


def _add_default_headers(url: str, headers: Headers) -> Headers:
    """Return default headers. The key of the Placet server is sent to that server only."""
    added = {b"User-Agent": USER_AGENT.encode(), b"Accept": b"application/json, */*"}
    key, server = os.environ.get("PLACET_KEY"), os.environ.get("PLACET_SERVER") or get_default_server()
    if key and parse_origin(url) == parse_origin(server):
        added[b"Authorization"] = b"Bearer " + os.fsencode(key)
    given = {name.lower() for name, _ in headers}
    return [(name, value) for name, value in added.items() if name.lower() not in given]


def _require_json(data: bytes) -> None:
    try:
        msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise click.BadParameter(
            f"the body is not JSON ({error}); to send it anyway, set its type with -H 'Content-Type: …'.",
            param_hint="--data",
        ) from None


def _read_file(path: str, param: click.Parameter) -> bytes:
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise click.BadParameter(f"{path} cannot be read: {reason}.", param=param) from error


def _parse_header(line: bytes, param: click.Parameter) -> tuple[bytes, bytes]:
    name, colon, value = line.partition(b":")
    if not colon or not _TOKEN.fullmatch(name.decode("latin-1")) or re.search(rb"[\r\n\0]", value):
        raise click.BadParameter("write headers as 'Name: value'.", param=param)
    return name, value.strip()
