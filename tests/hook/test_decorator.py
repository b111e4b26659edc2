"""`requires_approval`: blocking in the terminal or on a page, or durable over restarts."""

import asyncio
import io
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from placet.client import PlacetClient
from placet.errors import ApprovalPending, CallRejected, HookError, InvalidFeedback
from placet.hook import InterruptionMetadata, MemorySaver, SqliteSaver
from placet.hook.decorator import requires_approval
from placet.hook.reviews import ServerReviews
from placet.hook.terminal import ask_in_terminal
from tests.hook.scripted_model import Person
from tests.server.running import running


def test_a_call_runs_only_after_the_person_said_so() -> None:
    person, ran = Person({"decision": "approve"}), []

    @requires_approval("Deleting needs approval", ask=person)
    def delete(table: str, rows: int = 5) -> str:
        """Delete rows."""
        ran.append((table, rows))
        return f"deleted {rows}"

    assert delete("old", rows=3) == "deleted 3"
    assert ran == [("old", 3)]
    shown = person.saw[0].tool_feedbacks[0]
    assert (shown.name, shown.arguments) == ("delete", {"table": "old", "rows": 3})
    assert shown.description == "Deleting needs approval"


def test_a_rejected_call_raises_with_the_reason_and_an_answer_stands_in_its_place() -> None:
    person = Person({"decision": "reject", "reason": "Archive it."}, {"decision": "respond", "answer": "42"})

    @requires_approval(ask=person, allowed_decisions=("approve", "reject", "respond"))
    def count(table: str) -> str:
        raise AssertionError("it must not run")

    with pytest.raises(CallRejected, match="Archive it"):
        count("x")
    assert count("x") == "42"


def test_an_edited_call_runs_as_edited_and_a_misfit_is_refused() -> None:
    person = Person(
        {"decision": "edit", "arguments": {"rows": "all"}}, {"decision": "edit", "arguments": {"rows": 1}}
    )

    @requires_approval(ask=person)
    def delete(rows: int) -> int:
        return rows

    with pytest.raises(InvalidFeedback):
        delete(100)
    assert delete(100) == 1


def test_a_condition_lets_small_calls_through_unasked() -> None:
    person = Person()

    @requires_approval(ask=person, when=lambda call, state: call.arguments["amount"] > 100)
    def pay(amount: int) -> int:
        return amount

    assert pay(5) == 5
    assert person.saw == []


def test_methods_and_coroutines_are_gated_too() -> None:
    person = Person({"decision": "approve"}, {"decision": "approve"}, {"decision": "reject"})

    class Shop:
        @requires_approval(ask=person)
        def sell(self, item: str) -> str:
            return f"sold {item}"

        @requires_approval(ask=person)
        async def ship(self, item: str) -> str:
            return f"shipped {item}"

    assert Shop().sell("tea") == "sold tea"
    assert asyncio.run(Shop().ship("tea")) == "shipped tea"
    with pytest.raises(CallRejected):
        asyncio.run(Shop().ship("tea"))
    assert person.saw[0].tool_feedbacks[0].arguments == {"item": "tea"}


def test_call_with_arguments_that_cannot_be_shown_does_not_run() -> None:
    @requires_approval(ask=Person())
    def send(socket: object) -> None:
        raise AssertionError("it must not run")

    with pytest.raises(HookError, match="cannot be shown to a reviewer"):
        send(object())


@pytest.mark.parametrize("keys", [(1, "1"), (True, "true"), (None, "null"), (1.5, "1.5")])
def test_an_argument_that_json_would_hide_does_not_run(keys: tuple[Any, str]) -> None:
    person = Person({"decision": "approve"})

    @requires_approval(ask=person)
    def pay(amounts: dict[Any, str]) -> str:
        raise AssertionError("it must not run")

    hidden, shown = keys
    with pytest.raises(HookError, match="two keys that are the same in JSON"):
        pay({hidden: "to Eve", shown: "to Ann"})
    assert person.saw == []


def test_a_durable_call_is_pending_then_runs_once_in_whatever_process(tmp_path: Path) -> None:
    ran: list[str] = []
    with running(tmp_path) as server, PlacetClient(server.url, server.api_key) as client:

        def process() -> Any:
            """The same program, started anew."""

            @requires_approval(
                "Refunds need approval",
                reviews=ServerReviews(client),
                saver=SqliteSaver(tmp_path / "calls.db"),
                key=lambda call: str(call.arguments["order"]),
            )
            def refund(order: str) -> dict[str, str]:
                ran.append(order)
                return {"refunded": order}

            return refund

        with pytest.raises(ApprovalPending) as pending:
            process()("o-1")
        with pytest.raises(ApprovalPending) as again:
            process()("o-1")
        assert again.value.details == pending.value.details, "one case, however often it is called"
        with server.page(pending.value.details) as page:
            assert "Refunds need approval" in page.text
            assert page.post("respond", {"action": "approve"}).response.status_code == 200
        assert process()("o-1") == {"refunded": "o-1"}
        assert process()("o-1") == {"refunded": "o-1"}
        with pytest.raises(ApprovalPending):
            process()("o-2")
    assert ran == ["o-1"]


def test_a_blocking_call_waits_for_the_page(tmp_path: Path) -> None:
    with running(tmp_path) as server, PlacetClient(server.url, server.api_key) as client:
        reviews = ServerReviews(client)

        @requires_approval(reviews=reviews, poll_interval=0.01)
        async def deploy(version: str) -> str:
            return f"deployed {version}"

        async def played() -> str:
            call = asyncio.create_task(deploy("1.2"))
            cases: list[Any] = []
            with server.client(server.api_key) as api:
                while not cases:
                    await asyncio.sleep(0.01)
                    cases = api.get("/v1/reviews").json()["cases"]
            await asyncio.to_thread(client.cancel, cases[0]["poll"]["case_id"], reason="Not today.")
            return await call

        with pytest.raises(CallRejected, match="Not today"):
            asyncio.run(played())


def test_a_call_that_failed_is_not_tried_again_by_its_second_delivery(tmp_path: Path) -> None:
    saver = SqliteSaver(tmp_path / "calls.db")

    @requires_approval(ask=Person({"decision": "approve"}), saver=saver, key=lambda call: "k")
    def breaks() -> None:
        raise ValueError("no such order")

    with pytest.raises(ValueError, match="no such order"):
        breaks()
    with pytest.raises(CallRejected, match="no such order"):
        breaks()


def test_a_terminal_asks_until_the_answer_fits(capsys: pytest.CaptureFixture[str]) -> None:
    said = iter(["what?", "e", "{broken", "e", '{"amount": "much"}', "e", '{"amount": 5}'])

    @requires_approval(
        "Pays for real.\x1b[2J", ask=lambda waiting: ask_in_terminal(waiting, read=lambda _: next(said))
    )
    def pay(amount: int, to: str = "x") -> int:
        return amount

    assert pay(500) == 5
    shown = capsys.readouterr().err
    assert "Call 1 of 1: pay" in shown
    assert "amount: 500" in shown
    assert "⟦U+001B⟧[2J" in shown, "what an agent sent cannot move the cursor"
    assert "not JSON" in shown


def test_a_terminal_rejects_with_a_reason_and_answers_in_the_tools_place() -> None:
    said = iter(["r", "too much"])

    @requires_approval(
        ask=lambda waiting: ask_in_terminal(waiting, read=lambda _: next(said), out=io.StringIO())
    )
    def pay(amount: int) -> int:
        return amount

    with pytest.raises(CallRejected, match="too much"):
        pay(500)


def test_without_a_terminal_nothing_runs() -> None:
    def nobody(prompt: str) -> str:
        raise EOFError

    @requires_approval(ask=lambda waiting: ask_in_terminal(waiting, read=nobody, out=io.StringIO()))
    def pay(amount: int) -> int:
        raise AssertionError("it must not run")

    with pytest.raises(EOFError):
        pay(500)


def test_an_approved_call_runs_with_just_what_it_was_given() -> None:
    given: list[object] = []

    @requires_approval(ask=lambda waiting: waiting.approve_all())
    def plan(grades: dict[int, str], pair: tuple[int, int], cls: str) -> dict[tuple[int, int], int]:
        given.extend((grades, pair, cls))
        return {pair: 3}

    assert plan({1: "a"}, (1, 2), "4b") == {(1, 2): 3}
    assert given == [{1: "a"}, (1, 2), "4b"]


def test_answer_after_the_timeout_is_ignored() -> None:
    ran: list[int] = []

    def slowly(waiting: InterruptionMetadata) -> InterruptionMetadata:
        assert waiting.expires_at is not None
        while datetime.now(UTC) < waiting.expires_at:
            pass
        return waiting.approve_all()

    @requires_approval(timeout=0.01, ask=slowly)
    def pay() -> None:
        ran.append(1)

    with pytest.raises(CallRejected, match="in time"):
        pay()
    assert ran == []


EDITED = {"first": 1, "second": 2, "rest": [3], "named": {"k": 4}}


def test_functions_of_any_signature_are_gated() -> None:
    @requires_approval(ask=lambda waiting: waiting.edit("call", EDITED))
    def edited(first: int, /, second: int = 2, *rest: int, **named: int) -> list[object]:
        return [first, second, *rest, named]

    @requires_approval(ask=lambda waiting: waiting.approve_all())
    def approved(first: int, /, *rest: int, **named: int) -> list[object]:
        return [first, *rest, named]

    assert edited(5) == [1, 2, 3, {"k": 4}]
    assert approved(5, 6, k=7) == [5, 6, {"k": 7}]
    with pytest.raises(InvalidFeedback, match="rest"):
        requires_approval(ask=lambda waiting: waiting.edit("call", {"first": 1, "rest": ["x"]}))(
            approved.__wrapped__  # type: ignore[attr-defined]
        )(5)


def test_a_durable_call_that_was_interrupted_is_told_as_unknown_at_once_and_not_run_again() -> None:
    ran: list[int] = []

    @requires_approval(
        ask=lambda waiting: waiting.approve_all(), saver=MemorySaver(), key=lambda call: "the one"
    )
    def pay() -> None:
        ran.append(1)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pay()
    with pytest.raises(CallRejected, match="unknown"):
        pay()
    assert ran == [1]
