"""Questions outlive calls, clients and processes; what became of them is told once it is asked for."""

import asyncio
from contextlib import closing
from typing import Any

import httpx
import pytest
from mcp import MCPError
from mcp.types import ElicitResult, InputRequiredResult, InputResponses

from placet.agent import PendingCases
from placet.mcp import questions
from placet.mcp.questions import Questions
from placet.mcp.server import build_server
from tests.mcp.assistant import ERA, Person, Setting, answer, read_structured, refusal, run, wait_until
from tests.mcp.leaving import connect_caller
from tests.waiting import PATIENCE_S

GO = {"prompt": "Go?", "wait_seconds": 0}


def test_a_call_that_is_broken_off_leaves_the_question_open(setting: Setting) -> None:
    async def main() -> None:
        async with setting.in_process(mode="legacy") as client:
            call = asyncio.create_task(
                client.call_tool("ask_confirmation", {"prompt": "Go?", "wait_seconds": 60})
            )

            async def listed() -> Any:
                return read_structured(await client.call_tool("list_questions"))["questions"]

            (question,) = await wait_until(listed)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            assert setting.status(question["case_id"])["status"] == "pending"
            answer(question["review_url"], "confirm")
            check = {"case_id": question["case_id"], "wait_seconds": 30}
            assert read_structured(await client.call_tool("check_question", check))["action"] == "confirm"
            assert await listed() == []

    run(main())


def test_an_answer_that_comes_after_the_client_left_is_kept_for_its_return(setting: Setting) -> None:
    async def main() -> None:
        with closing(PendingCases(setting.folder / "agent.db")) as cases:
            asking = Questions(server=setting.url, key=setting.key, cases=cases)
            async with (
                asking as questions,
                connect_caller(build_server(questions, key=setting.key)) as caller,
            ):
                call = asyncio.create_task(
                    caller.call("ask_confirmation", {"prompt": "Go?", "wait_seconds": 60})
                )
                await wait_until(lambda: questions._followed)
                await caller.leave(call)
                (kept,) = cases.list_pending()
                await asyncio.to_thread(answer, kept.case.review_url, "confirm")
                await wait_until(lambda: all(each.task.done() for each in questions._followed.values()))
                await caller.call("list_questions", {})  # by now the call is over
        async with setting.in_process() as client:
            (found,) = read_structured(await client.call_tool("list_questions"))["questions"]
            assert (found["case_id"], found["status"]) == (kept.case.case_id, "completed")
            check = {"case_id": found["case_id"], "wait_seconds": 30}
            assert read_structured(await client.call_tool("check_question", check))["action"] == "confirm"

    run(main())


def test_a_killed_server_knows_its_questions_again(setting: Setting) -> None:
    async def main() -> None:
        with setting.over_http() as server:
            async with server.assistant() as client:
                asked = read_structured(await client.call_tool("ask_confirmation", GO))
            server.process.kill()
        assert answer(asked["review_url"], "confirm").status_code == 200
        async with setting.in_process() as client:
            (found,) = read_structured(await client.call_tool("list_questions"))["questions"]
            assert (found["case_id"], found["status"]) == (asked["case_id"], "completed")
            assert found["action"] is None
            assert "check_question" in found["next_step"]
            check = {"case_id": asked["case_id"], "wait_seconds": 0}
            ended = read_structured(await client.call_tool("check_question", check))
            assert (ended["action"], ended["prompt"]) == ("confirm", "Go?")
            again = read_structured(await client.call_tool("check_question", check))
            assert (again["action"], again["verified"], again["prompt"]) == ("confirm", True, None)

    run(main())


def test_a_restart_between_the_two_rounds_of_a_call_does_not_matter(setting: Setting) -> None:
    arguments = {"prompt": "May I?", "text": "It.", "wait_seconds": 30}
    person = Person()

    async def main() -> None:
        async with setting.in_process(elicitation_callback=person, mode=ERA["2026"]) as client:
            first = await client.session.call_tool("ask_approval", arguments, allow_input_required=True)
            assert isinstance(first, InputRequiredResult)
            assert first.input_requests is not None
            (request,) = first.input_requests.values()
        answer(request.params.url, "approve")  # type: ignore[union-attr]
        responses: InputResponses = {"review": ElicitResult(action="accept")}
        async with setting.in_process(elicitation_callback=person, mode=ERA["2026"]) as client:
            second = await client.call_tool(
                "ask_approval", arguments, input_responses=responses, request_state=first.request_state
            )
            assert read_structured(second)["action"] == "approve"

    run(main())


@pytest.mark.parametrize("forged", ["another call", "another state"])
def test_state_that_was_not_given_for_this_call_is_refused(setting: Setting, forged: str) -> None:
    async def main() -> None:
        async with setting.in_process(elicitation_callback=Person(), mode=ERA["2026"]) as client:
            first = await client.session.call_tool(
                "ask_approval", {"prompt": "May I?", "text": "It."}, allow_input_required=True
            )
            assert isinstance(first, InputRequiredResult)
            state = first.request_state if forged == "another call" else "review_0000"
            text = "Something else." if forged == "another call" else "It."
            with pytest.raises(MCPError, match="requestState"):
                await client.call_tool(
                    "ask_approval", {"prompt": "May I?", "text": text}, request_state=state
                )

    run(main())


def test_a_question_is_withdrawn_with_a_reason(setting: Setting) -> None:
    async def main() -> None:
        async with setting.in_process() as client:
            asked = read_structured(await client.call_tool("ask_confirmation", GO))
            withdraw = {"case_id": asked["case_id"], "reason": "It was done by hand."}
            ended = read_structured(await client.call_tool("withdraw_question", withdraw))
            assert (ended["status"], ended["reason"]) == ("cancelled", "It was done by hand.")
            assert (ended["action"], ended["data"]) == (None, None)
            assert read_structured(await client.call_tool("list_questions"))["questions"] == []

    run(main())


def test_an_answer_that_nobody_was_listening_for_any_more_can_still_be_seen(setting: Setting) -> None:
    async def main() -> None:
        async with setting.in_process() as client:
            for action in ("confirm", "cancel"):
                asked = read_structured(await client.call_tool("ask_confirmation", GO))
                answer(asked["review_url"], action)
                await client.call_tool("check_question", {"case_id": asked["case_id"], "wait_seconds": 30})
            listed = read_structured(await client.call_tool("list_questions"))
            assert listed["questions"] == []
            assert [one["action"] for one in listed["recent"]] == ["cancel", "confirm"]

    run(main())


def test_withdrawing_what_was_answered_brings_the_answer(setting: Setting) -> None:
    async def main() -> None:
        async with setting.in_process() as client:
            asked = read_structured(await client.call_tool("ask_confirmation", GO))
            answer(asked["review_url"], "confirm")
            ended = read_structured(
                await client.call_tool("withdraw_question", {"case_id": asked["case_id"]})
            )
            assert (ended["status"], ended["action"]) == ("completed", "confirm")

    run(main())


def test_an_edit_is_answered_by_a_next_round(setting: Setting) -> None:
    async def main() -> None:
        async with setting.in_process() as client:
            draft = {"prompt": "May it go out?", "text": "Dear Jo", "wait_seconds": 0}
            asked = read_structured(await client.call_tool("ask_approval", draft))
            answer(asked["review_url"], "edit", edits={"artifact": "Dear Jonas"})
            check = {"case_id": asked["case_id"], "wait_seconds": 30}
            edited = read_structured(await client.call_tool("check_question", check))
            assert edited["data"]["edits"] == {"artifact": "Dear Jonas"}
            assert "previous_case_id" in edited["next_step"]
            second = {**draft, "text": "Dear Jonas", "previous_case_id": asked["case_id"]}
            again = read_structured(await client.call_tool("ask_approval", second))
            assert setting.status(asked["case_id"])["next_case_id"] == again["case_id"]

    run(main())


def test_answer_during_the_dialog_ends_the_call(setting: Setting) -> None:
    async def stare(context: Any, params: Any) -> ElicitResult:
        await asyncio.to_thread(answer, params.url, "confirm")
        await asyncio.Event().wait()
        raise AssertionError

    async def main() -> Any:
        async with setting.in_process(elicitation_callback=stare, mode="legacy") as client:
            return read_structured(await client.call_tool("ask_confirmation", GO))

    assert run(main())["action"] == "confirm"


def test_a_client_that_cannot_show_the_link_after_all_gets_it(setting: Setting) -> None:
    async def fail(context: Any, params: Any) -> Any:
        raise MCPError(code=-32603, message="No browser here")

    async def main() -> Any:
        async with setting.in_process(elicitation_callback=fail, mode="legacy") as client:
            return read_structured(await client.call_tool("ask_confirmation", GO))

    assert run(main())["review_url"]


def test_an_assistant_cannot_flood_people_with_questions(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "MAX_OPEN_QUESTIONS", 2)

    async def main() -> None:
        async with setting.in_process() as client:
            for _ in range(2):
                read_structured(await client.call_tool("ask_confirmation", GO))
            assert "2 questions are open already" in refusal(await client.call_tool("ask_confirmation", GO))

    run(main())


def test_questions_to_another_server_in_the_same_file_are_not_listed(setting: Setting) -> None:
    async def main() -> None:
        async with setting.in_process() as client:
            read_structured(await client.call_tool("ask_confirmation", GO))
        async with setting.in_process(url=setting.url.replace("127.0.0.1", "localhost")) as client:
            assert read_structured(await client.call_tool("list_questions"))["questions"] == []

    run(main())


def check_case_of_other_program(setting: Setting, draft: dict[str, Any], action: str) -> dict[str, Any]:
    """Open a case without the assistant, answer it, and return what the assistant reads about it."""
    headers = {"Authorization": f"Bearer {setting.key}"}
    draft = {"prompt": "Print it?", **draft}
    opened = httpx.post(f"{setting.url}/v1/cases", json=draft, headers=headers, timeout=PATIENCE_S).json()
    hitl = opened["hitl"]

    async def main() -> dict[str, Any]:
        async with setting.in_process() as client:
            assert answer(hitl["review_url"], action).status_code == 200
            check = {"case_id": hitl["case_id"], "wait_seconds": 30}
            return read_structured(await client.call_tool("check_question", check))

    return run(main())


@pytest.mark.parametrize("action", ["skip", "approve", "confirm"])
def test_action_of_a_custom_type_is_no_yes_although_it_is_one_of_another_type(
    setting: Setting, action: str
) -> None:
    draft = {"type": "x-photo-usage", "actions": ["allow", action], "affirmative_actions": ["allow"]}
    checked = check_case_of_other_program(setting, draft, action)
    assert (checked["type"], checked["action"], checked["is_affirmative"]) == (
        "x-photo-usage",
        action,
        False,
    )
    assert "not a yes" in checked["next_step"]


@pytest.mark.parametrize(
    ("type", "action", "is_yes"),
    [
        ("approval", "approve", True),
        ("approval", "reject", False),
        ("confirmation", "confirm", True),
        ("confirmation", "cancel", False),
        ("escalation", "skip", True),
        ("escalation", "abort", False),
    ],
)
def test_case_that_another_program_opened_has_the_affirmative_actions_of_its_type(
    setting: Setting, type: str, action: str, is_yes: bool
) -> None:
    checked = check_case_of_other_program(setting, {"type": type}, action)
    assert (checked["type"], checked["action"], checked["is_affirmative"]) == (type, action, is_yes)
