"""`placet ask`: every review type in one command, with exit codes for scripts."""

from typing import Any

import pytest

from tests.cli.asking import Desk

APPROVAL = ("ask", "approval", "Send it?", "--artifact", "Dear all, …", "--fact", "copies=12")
SELECTION = (
    "ask",
    "selection",
    "Which room?",
    "--option",
    "loft=Canal Loft",
    "--option",
    "hall=Weavers' Hall",
)
INPUT = (
    *("ask", "input", "Who travels?", "--field", "name:text:Name as in the passport"),
    *("--field", "way:select=train,plane", "--field", "note?:textarea"),
)
CONFIRMATION = (
    "ask",
    "confirmation",
    "Delete both?",
    "--item",
    "a=Autumn",
    "--item",
    "b=Spring",
    "--irreversible",
)
ESCALATION = ("ask", "escalation", "How to go on?", "--error", "It timed out.", "--param", "wait_seconds=20")


@pytest.mark.parametrize(
    ("words", "action", "data", "code"),
    [
        (APPROVAL, "approve", {}, 0),
        (APPROVAL, "reject", {"feedback": "Too late."}, 10),
        (SELECTION, "select", {"selected": ["hall"]}, 0),
        (INPUT, "submit", {"name": "Ada", "way": "train"}, 0),
        (CONFIRMATION, "confirm", {"confirmed_items": ["a", "b"]}, 0),
        (CONFIRMATION, "cancel", {}, 10),
        (ESCALATION, "retry", {"modified_params": {"wait_seconds": 60}}, 0),
        (ESCALATION, "skip", {}, 0),
        (ESCALATION, "abort", {}, 10),
    ],
)
def test_every_kind_of_question_comes_back_answered(
    desk: Desk, words: tuple[str, ...], action: str, data: dict[str, Any], code: int
) -> None:
    asking = desk.start(*words)
    desk.answer(asking.link(), action, **data)
    result = asking.end(code)
    assert (result["status"], result["action"], result["verified"]) == ("completed", action, True)
    assert result["data"].items() >= data.items()
    assert desk.list_pending() == []


def test_prompt_and_deadline_are_printed(desk: Desk) -> None:
    asking = desk.start(*APPROVAL, "--timeout", "30m", "--default-action", "reject")
    link = asking.link()
    asking.wait_for("Waiting for a person to open it (29:")
    assert "asks for your approval:\n  Send it?\n" in asking.stderr
    assert "If nobody answers: it counts as a no." in asking.stderr
    desk.answer(link, "approve")
    asking.end()
    assert "Approved" in asking.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("words", "press", "code"),
    [(APPROVAL, "approve", 0), (CONFIRMATION, "cancel", 10), (ESCALATION, "retry", 0)],
    ids=["approval", "confirmation", "escalation"],
)
def test_inline_answers_work_when_enabled(desk: Desk, words: tuple[str, ...], press: str, code: int) -> None:
    asking = desk.start(*words, "--inline")
    asking.link()
    desk.press(press)
    assert asking.end(code)["action"] == press


def test_inline_answers_are_disabled_by_default(desk: Desk) -> None:
    asking = desk.start(*APPROVAL)
    link = asking.link()
    assert desk.list_pending()[0].case.pressable == ()
    desk.answer(link, "approve")
    asking.end()


def test_a_word_that_must_be_typed_cannot_be_pressed(desk: Desk) -> None:
    asking = desk.start(*CONFIRMATION, "--confirm-word", "delete", "--inline")
    link = asking.link()
    assert desk.list_pending()[0].case.pressable == ("cancel",)
    desk.answer(link, "confirm", confirmed_items=["a", "b"], confirm_word="delete")
    asking.end()


def test_unanswered_case_expires_with_its_default_action(desk: Desk) -> None:
    asking = desk.start(*APPROVAL, "--timeout", "2s", "--default-action", "reject", "--interval", "0.2")
    result = asking.end(11)
    assert (result["status"], result["default_action"], result["action"]) == ("expired", "reject", None)
    assert "nothing was decided" in asking.stderr


def test_withdrawn_case_returns_the_reason(desk: Desk) -> None:
    asking = desk.start(*APPROVAL)
    asking.link()
    with desk.api() as owner:
        owner.post(
            f"/v1/reviews/{desk.list_pending()[0].case.case_id}/cancel", json={"reason": "Not needed."}
        )
    result = asking.end(12)
    assert (result["status"], result["reason"], result["action"]) == ("cancelled", "Not needed.", None)


def test_multiple_selection_works_when_enabled(desk: Desk) -> None:
    asking = desk.start(*SELECTION, "--max", "2", "--recommend", "hall")
    desk.answer(asking.link(), "select", selected=["hall", "loft"])
    assert asking.end()["data"] == {"selected": ["hall", "loft"]}


def test_texts_and_objects_come_from_files(desk: Desk) -> None:
    (desk.folder / "reply.txt").write_text("{name}, your parcel is late.")
    (desk.folder / "more.json").write_text('{"order": {"number": 7}}')
    asking = desk.start("ask", "approval", "Send it?", "--artifact", "@reply.txt", "--context", "@more.json")
    link = asking.link()
    context = desk.list_pending()[0].case.context
    assert context == {"artifact": "{name}, your parcel is late.", "order": {"number": 7}}
    desk.answer(link, "approve")
    asking.end()


def test_reminder_is_sent_when_requested(desk: Desk) -> None:
    asking = desk.start(*APPROVAL, "--remind-after", "5s")  # after the command has begun, however slowly
    asking.wait_for("Reminder: ")
    desk.answer(asking.link(), "approve")
    assert asking.end()["action"] == "approve"


def test_a_whole_form_comes_from_a_file(desk: Desk) -> None:
    (desk.folder / "form.json").write_text('{"fields": [{"key": "age", "label": "Age", "type": "number"}]}')
    asking = desk.start("ask", "input", "How old?", "--form", "@form.json")
    desk.answer(asking.link(), "submit", age=41)
    assert asking.end()["data"] == {"age": 41}


def test_previous_case_is_continued(desk: Desk) -> None:
    asking = desk.start(*APPROVAL)
    desk.answer(asking.link(), "edit", feedback="Shorter, please.")
    first = asking.end(10)  # a script must not go on as after a yes
    assert (first["action"], first["data"]) == ("edit", {"feedback": "Shorter, please."})
    again = desk.start(*APPROVAL, "--previous", first["case_id"])
    desk.answer(again.link(), "approve")
    assert again.end()["previous_case_id"] == first["case_id"]
    assert f"This continues {first['case_id']}." in again.stderr


def test_the_same_question_again_is_the_same_case(desk: Desk) -> None:
    words = (*APPROVAL, "--idempotency-key", "order 7", "--max-wait", "0")
    first, again = desk.start(*words).end(13), desk.start(*words).end(13)
    assert first["case_id"] == again["case_id"]
    assert len(desk.list_pending()) == 1


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("input", "Who?"), "Pass the fields with --field"),
        (("input", "Who?", "--field", "name"), "KEY:TYPE"),
        (("input", "Who?", "--field", "name:poem"), "types are text"),
        (("input", "Who?", "--field", "size:select"), "=A,B"),
        (("input", "Who?", "--field", "size:text=S,M"), "only select"),
        (("selection", "Which?"), "--option"),
        (("selection", "Which?", "--option", "a=A", "--option", "a=B"), "each id once"),
        (("approval", "Go?", "--artifact", "@nowhere.txt"), "nowhere.txt cannot be read"),
        (("approval", "Go?", "--artifact", "{broken"), "not valid JSON"),
        (("approval", "Go?", "--context", "[1]"), "JSON object"),
        (("approval", "Go?", "--fact", "alone"), "NAME=TEXT"),
        (("approval", "Go?", "--max-wait", "soon"), "duration"),
        (("approval", "Go?", "--remind-after", "soon"), "--remind-after"),
        (("approval", "Go?", "--remind-after", "1h", "--idempotency-key", "a"), "--idempotency-key"),
        (("approval",), "PROMPT"),
        (("vote", "Go?"), "No such command"),
    ],
)
def test_invalid_arguments_are_explained_and_open_no_case(
    desk: Desk, words: tuple[str, ...], complaint: str
) -> None:
    asking = desk.start("ask", *words)
    assert asking.read_stdout(2) == b""
    assert complaint in asking.stderr
    assert desk.list_pending() == []


@pytest.mark.parametrize(
    ("env", "complaint"),
    [
        ({"PLACET_KEY": ""}, "PLACET_KEY"),
        ({"PLACET_KEY": "placet_wrong"}, "This API key is not known"),
        ({"PLACET_SERVER": "http://placet.example"}, "https"),
        ({"PLACET_SERVER": "http://127.0.0.1:1"}, "cannot be reached"),
    ],
)
def test_unreachable_server_is_an_error_with_its_cause(
    desk: Desk, env: dict[str, str], complaint: str
) -> None:
    asking = desk.start(*APPROVAL, env=env)
    assert asking.read_stdout(1) == b""
    assert complaint in asking.stderr
    told = desk.start(*APPROVAL, "--json", env=env).end(1)
    assert told["status"] == "error"
    assert complaint in str(told["message"])


def test_error_without_a_server_says_how_to_start_one(desk: Desk) -> None:
    asking = desk.start(*APPROVAL, env={"PLACET_SERVER": "http://127.0.0.1:1"})
    assert asking.read_stdout(1) == b""
    assert "Start a server with `placet serve`" in asking.stderr


def test_servers_error_message_is_printed(desk: Desk) -> None:
    asking = desk.start(*APPROVAL, "--timeout", "a while", "--json")
    refusal = asking.end(1)
    assert (refusal["status"], refusal["error"], refusal["http_status"]) == ("error", "invalid_request", 400)
    assert "not a duration" in refusal["message"]
    assert "not a duration" in asking.stderr
