"""What an assistant says wrong, and what goes wrong around it: a sentence for the model, never a decision."""

import asyncio
from typing import Any

import httpx
import pytest

from tests.mcp.assistant import Setting, read_structured, refusal, run
from tests.raw_server import serve_connections
from tests.waiting import PATIENCE_S

NOWHERE = "http://127.0.0.1:9"


async def call_tool(client: Any, tool: str, **arguments: Any) -> str:
    text = refusal(await client.call_tool(tool, arguments))
    assert "Traceback" not in text
    return text


def test_a_wrong_key_is_named_as_such(setting: Setting) -> None:
    async def main() -> str:
        async with setting.in_process(key="placet_" + "x" * 43) as client:
            return await call_tool(client, "ask_confirmation", prompt="Go?", wait_seconds=0)

    said = run(main())
    assert "[invalid_token]" in said
    assert "Nothing was decided." in said
    assert "xxx" not in said


def test_a_server_that_is_down_is_named(setting: Setting) -> None:
    async def main() -> list[str]:
        async with setting.in_process(url=NOWHERE) as client:
            return [
                await call_tool(client, "ask_confirmation", prompt="Go?"),
                await call_tool(client, "check_question", case_id="review_1"),
                await call_tool(client, "withdraw_question", case_id="review_1"),
            ]

    for said in run(main()):
        assert f"The Placet server at {NOWHERE} cannot be reached. [unavailable]" in said


def test_a_key_that_is_refused_later_loses_no_question(setting: Setting) -> None:
    async def main() -> None:
        async with setting.in_process() as client:
            asked = read_structured(
                await client.call_tool("ask_confirmation", {"prompt": "Go?", "wait_seconds": 0})
            )
        async with setting.in_process(key="placet_" + "x" * 43) as client:
            assert "[invalid_token]" in await call_tool(
                client, "check_question", case_id=asked["case_id"], wait_seconds=0
            )
        async with setting.in_process() as client:
            (found,) = read_structured(await client.call_tool("list_questions"))["questions"]
            assert found["case_id"] == asked["case_id"]

    run(main())


def test_a_reply_that_got_lost_does_not_make_two_questions_of_one(setting: Setting) -> None:
    calls: list[bytes] = []

    async def lossy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Takes every call to the server, and loses the first reply."""
        head = await reader.readuntil(b"\r\n\r\n")
        headers = httpx.Headers(dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:-2]))
        calls.append(await reader.readexactly(int(headers["Content-Length"])))
        named = {name: headers[name] for name in ("Authorization", "Content-Type", "Idempotency-Key")}
        async with httpx.AsyncClient(timeout=PATIENCE_S) as http:
            reply = await http.post(f"{setting.url}/v1/cases", content=calls[-1], headers=named)
        if len(calls) > 1:
            lines = f"HTTP/1.1 {reply.status_code} .\r\nContent-Length: {len(reply.content)}\r\n\r\n"
            writer.write(lines.encode() + reply.content)
            await writer.drain()
        writer.close()

    async def main() -> Any:
        async with (
            serve_connections(lossy) as port,
            setting.in_process(url=f"http://127.0.0.1:{port}") as client,
        ):
            return read_structured(
                await client.call_tool("ask_confirmation", {"prompt": "Go?", "wait_seconds": 0})
            )

    before = setting.pending()
    asked = run(main())
    assert len(calls) == 2
    assert setting.pending() - before == {asked["case_id"]}


@pytest.mark.parametrize(
    ("tool", "arguments", "complaint"),
    [
        ("ask_approval", {"prompt": ""}, "prompt"),
        ("ask_approval", {"prompt": "x" * 501}, "prompt"),
        ("ask_approval", {"prompt": "May I?", "text": "a", "parts": {"b": 1}}, "not as both"),
        ("ask_approval", {"prompt": "May I?", "text": "a", "timeout": "soon"}, "24h"),
        ("ask_approval", {"prompt": "May I?", "text": "a", "default_action": "approve"}, "default_action"),
        ("ask_approval", {"prompt": "May I?", "text": "a", "wait_seconds": -1}, "wait_seconds"),
        ("ask_approval", {"prompt": "May I?", "text": "a", "wait_seconds": 10**9}, "wait_seconds"),
        ("ask_approval", {"prompt": "May I?", "text": "a", "previous_case_id": "review_no"}, "["),
        ("ask_approval", {"prompt": "May I?", "text": "\x00"}, "invalid_request"),
        ("ask_selection", {"prompt": "Which?", "options": []}, "options"),
        ("ask_selection", {"prompt": "Which?", "options": [{"id": "a", "title": "A"}] * 2}, "["),
        ("ask_input", {"prompt": "When?", "fields": [{"key": "a", "label": "A", "type": "file"}]}, "type"),
        (
            "ask_input",
            {
                "prompt": "When?",
                "fields": [{"key": "a", "label": "A", "default_ref": "http://169.254.169.254/"}],
            },
            "default_ref",
        ),
        (
            "ask_input",
            {"prompt": "When?", "fields": [{"key": "a", "label": "A"}], "steps": [{"title": "One"}]},
            "not as both",
        ),
        ("ask_confirmation", {"prompt": "Go?", "remind_after": ["soon"]}, "24h"),
        ("ask_confirmation", {"prompt": "Go?", "timeout": "1h", "remind_after": ["2h"]}, "reminder_at"),
        ("ask_confirmation", {"prompt": "Go?", "verification": {"provider": 7}}, "provider"),
        (
            "ask_confirmation",
            {"prompt": "Go?", "verification": {"required_for": ["browser_submit"]}},
            "cannot verify proof_of_human",
        ),
        ("ask_escalation", {"prompt": "How now?"}, "error"),
        ("check_question", {"case_id": "../../admin"}, "case_id"),
        ("check_question", {"case_id": ".."}, "case_id"),
        ("check_question", {"case_id": "review_" + "0" * 40}, "[not_found]"),
        ("withdraw_question", {"case_id": "review_none"}, "[not_found]"),
        ("withdraw_question", {"case_id": "review_none", "reason": "x" * 3000}, "reason"),
    ],
)
def test_invalid_arguments_are_refused_by_name(
    setting: Setting, tool: str, arguments: dict[str, Any], complaint: str
) -> None:
    async def main() -> None:
        async with setting.in_process() as client:
            assert complaint in await call_tool(client, tool, **{"wait_seconds": 0, **arguments})
            assert read_structured(await client.call_tool("list_questions"))["questions"] == []

    run(main())


def test_texts_arrive_as_they_were_written(setting: Setting) -> None:
    """A text that looks like JSON stays a text; hidden characters stay for the page to show."""
    texts = ['{"looks": "like JSON"}', "null", "<script>alert(1)</script>", "a\u202eb", "x" * 10_000]

    async def main() -> None:
        async with setting.in_process() as client:
            for text in texts:
                asked = {"prompt": f"May I? {text[:20]}", "text": text, "wait_seconds": 0}
                found = read_structured(await client.call_tool("ask_approval", asked))
                assert found["prompt"] == asked["prompt"]
                assert found["status"] == "pending"

    run(main())


def test_context_that_is_nested_beyond_reason_is_refused(setting: Setting) -> None:
    deep: Any = "end"
    for _ in range(200):
        deep = {"in": deep}

    async def main() -> str:
        async with setting.in_process() as client:
            return await call_tool(client, "ask_confirmation", prompt="Go?", facts=deep)

    assert "Nothing was decided." in run(main())
