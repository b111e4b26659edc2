"""Interruptions as cases on a real server: people decide there, and any process takes it up."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from placet import Placet
from placet.client import PlacetClient
from placet.errors import HookError, InvalidFeedback, Unavailable
from placet.hook import (
    FeedbackResult,
    HumanInTheLoopHook,
    MemorySaver,
    ReactAgent,
    SqliteSaver,
    ToolCall,
    ToolConfig,
)
from placet.hook.checkpoint import Checkpoint
from placet.hook.feedback import CallDecision
from placet.hook.gate import Gate
from placet.hook.grants import ServerGrants
from placet.hook.interruption import InterruptionMetadata
from placet.hook.reviews import EmbeddedReviews, ServerReviews
from placet.hook.thread_resumption import aresume_pending, resume_pending
from tests.hook.scripted_model import Office, Scripted, call, expect_interruption, expect_result
from tests.server.running import RunningServer, running

GATED: dict[str, ToolConfig | str | bool] = {
    "write_file": "Writing needs approval",
    "execute_sql": ToolConfig(timeout=600),
}
TWO = [call("a", "write_file", path="x.txt"), call("b", "execute_sql", query="DROP TABLE t")]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture
def client(server: RunningServer) -> Iterator[PlacetClient]:
    with PlacetClient(server.url, server.api_key) as client:
        yield client


class Clerk:
    """An agent whose calls are decided on the server; a second one on the same saver is its next process."""

    def __init__(self, client: PlacetClient, saver: Any = None, *replies: Any, **options: Any) -> None:
        self.office = Office()
        self.model = Scripted(*(replies or (TWO, "done")))
        self.saver = saver or MemorySaver()
        hook = options.pop("hook", None) or HumanInTheLoopHook(GATED)
        reviews = ServerReviews(client, inline_actions=["approve", "reject"])
        self.agent = ReactAgent(
            "clerk", self.model, self.office.tools, [hook], self.saver, reviews=reviews, **options
        )


def case_of(waiting: InterruptionMetadata) -> dict[str, Any]:
    assert waiting.case is not None
    return dict(waiting.case)


def test_a_person_decides_call_by_call_on_the_page_and_a_new_process_goes_on(
    server: RunningServer, client: PlacetClient, tmp_path: Path
) -> None:
    saver = SqliteSaver(tmp_path / "threads.db")
    case = case_of(expect_interruption(Clerk(client, saver).agent.invoke("clean up", thread_id="t")))
    with server.page(case) as page:
        assert "Writing needs approval" in page.text
        assert "clerk" in page.text
        decisions = {"decision.1": "approve", "decision.2": "reject", "reason.2": "Archive it."}
        answered = page.post("respond", {**decisions, "action": "edit"})
        assert answered.response.status_code == 200, answered.text
    later = Clerk(client, saver)
    moved = resume_pending(later.agent)
    assert expect_result(moved["t"]).text == "done"
    assert later.office.ran == [("write_file", "x.txt", "")]
    assert later.model.results() == ["wrote x.txt", "A person rejected this call. Their reason: Archive it."]
    assert resume_pending(later.agent) == {}
    saver.close()


def press(server: RunningServer, client: PlacetClient, waiting: InterruptionMetadata, action: str) -> None:
    """Answer the whole case by the API, as a person's button in a messenger does."""
    case = case_of(waiting)
    with server.page(case) as page:
        answered = page.post("respond", {"action": action})
        assert answered.response.status_code == 200, answered.text


def test_the_same_interruption_opens_one_case_however_often_it_is_asked_for(client: PlacetClient) -> None:
    waiting = expect_interruption(Clerk(client).agent.invoke("clean up", thread_id="once"))
    reviews = ServerReviews(client, inline_actions=["approve", "reject"])
    assert reviews.open_case(waiting, agent="clerk")["case_id"] == case_of(waiting)["case_id"]


def test_an_old_approval_of_the_same_calls_in_a_thread_of_the_same_name_approves_nothing(
    server: RunningServer, client: PlacetClient
) -> None:
    old = Clerk(client)
    press(server, client, expect_interruption(old.agent.invoke("clean up", thread_id="daily")), "approve")
    new = Clerk(client)
    expect_interruption(new.agent.invoke("clean up", thread_id="daily"))
    assert resume_pending(new.agent) == {}
    assert new.office.ran == []


def test_until_someone_decides_the_thread_waits(server: RunningServer, client: PlacetClient) -> None:
    clerk = Clerk(client)
    waiting = expect_interruption(clerk.agent.invoke("clean up", thread_id="t"))
    assert expect_interruption(clerk.agent.resume("t")).case == waiting.case
    assert resume_pending(clerk.agent) == {}
    assert clerk.office.ran == []
    press(server, client, waiting, "approve")
    assert resume_pending(clerk.agent, case_id="another") == {}
    moved = resume_pending(clerk.agent, case_id=case_of(waiting)["case_id"])
    assert expect_result(moved["t"]).text == "done"
    assert len(clerk.office.ran) == 2


def test_what_a_person_noted_is_the_reason_where_they_gave_no_other(
    server: RunningServer, client: PlacetClient
) -> None:
    clerk = Clerk(client)
    waiting = expect_interruption(clerk.agent.invoke("clean up", thread_id="t"))
    with server.page(case_of(waiting)) as page:
        page.post("respond", {"action": "reject", "note": "Not on a Friday."})
    expect_result(clerk.agent.resume("t"))
    assert clerk.model.results() == ["A person rejected this call. Their reason: Not on a Friday."] * 2


def test_a_decision_taken_in_code_withdraws_the_case(client: PlacetClient) -> None:
    clerk = Clerk(client)
    waiting = expect_interruption(clerk.agent.invoke("clean up", thread_id="t"))
    expect_result(clerk.agent.resume("t", waiting.reject_all("no")))
    assert client.status(case_of(waiting)["case_id"])["status"] == "cancelled"


def test_a_case_that_nobody_answered_rejects_its_calls(server: RunningServer, client: PlacetClient) -> None:
    clerk = Clerk(client)
    expect_interruption(clerk.agent.invoke("clean up", thread_id="t"))
    server.advance(minutes=10)
    server.sweep()
    assert expect_result(clerk.agent.resume("t")).text == "done"
    assert clerk.office.ran == []
    assert all("Nobody decided in time" in result for result in clerk.model.results())


def test_calls_that_are_held_are_asked_about_anew(server: RunningServer, client: PlacetClient) -> None:
    hook = HumanInTheLoopHook({"*": ToolConfig(timeout=60, default="hold")})
    clerk = Clerk(client, hook=hook)
    first = expect_interruption(clerk.agent.invoke("clean up", thread_id="t"))
    server.advance(minutes=1)
    server.sweep()
    second = expect_interruption(clerk.agent.resume("t"))
    assert case_of(second)["case_id"] != case_of(first)["case_id"]
    assert expect_interruption(clerk.agent.resume("t")).case == second.case
    press(server, client, second, "approve")
    assert expect_result(clerk.agent.resume("t")).text == "done"


def test_a_person_who_will_not_decide_leaves_the_calls_rejected(client: PlacetClient) -> None:
    clerk = Clerk(client)
    waiting = expect_interruption(clerk.agent.invoke("clean up", thread_id="t"))
    client.cancel(case_of(waiting)["case_id"], reason="Not mine to decide.")
    assert expect_result(clerk.agent.resume("t")).text == "done"
    assert "Not mine to decide." in clerk.model.results()[0]
    assert clerk.office.ran == []


def test_while_the_server_is_away_the_calls_wait_and_are_asked_about_later(client: PlacetClient) -> None:
    with PlacetClient("http://127.0.0.1:9", "key") as nobody:
        clerk = Clerk(nobody)
        waiting = expect_interruption(clerk.agent.invoke("clean up", thread_id="t"))
        assert waiting.case is None
    later = Clerk(client, clerk.saver)
    assert case_of(expect_interruption(later.agent.resume("t")))["review_url"]
    with PlacetClient("http://127.0.0.1:9", "key") as nobody:
        gone = Clerk(nobody, clerk.saver)
        with pytest.raises(Unavailable):
            gone.agent.resume("t")
        assert resume_pending(gone.agent) == {}
    assert later.office.ran == []


def test_what_a_person_allowed_before_runs_without_asking(
    server: RunningServer, client: PlacetClient
) -> None:
    once = [call("a", "execute_sql", query="SELECT 1")]
    clerk = Clerk(client, None, once, once, "done", grants=ServerGrants(client))
    waiting = expect_interruption(clerk.agent.invoke("look", thread_id="t"))
    with server.page(case_of(waiting)) as page:
        grant = {"decision.1": "approve", "grant.1.on": "yes", "grant.1.uses": "1", "grant.1.for": "1h"}
        answered = page.post("respond", {**grant, "action": "approve"})
        assert answered.response.status_code == 200, answered.text
    assert [grant["tool"] for grant in client.grants()["grants"]] == ["execute_sql"]
    assert expect_result(clerk.agent.resume("t")).text == "done", "the second call was covered"
    assert len(clerk.office.ran) == 2
    expect_interruption(Clerk(client, None, once, "done", grants=ServerGrants(client)).agent.invoke("look"))


def test_an_agent_beside_an_embedded_desk_asks_there(tmp_path: Path) -> None:
    async def played() -> None:
        placet = Placet(base_url="http://127.0.0.1:8000", db=str(tmp_path / "cases.db"))
        office, model = Office(), Scripted(TWO, "done")
        agent = ReactAgent(
            "clerk",
            model,
            office.tools,
            [HumanInTheLoopHook(GATED)],
            reviews=EmbeddedReviews(placet),
            saver=MemorySaver(),
        )
        async with placet.lifespan():
            waiting = expect_interruption(await agent.ainvoke("clean up", thread_id="t"))
            with pytest.raises(HookError, match="async methods"):
                await asyncio.to_thread(agent.resume, "t")
            await placet.cancel(case_of(waiting)["case_id"], reason="no")
            moved = await aresume_pending(agent)
        assert expect_result(moved["t"]).text == "done"
        assert office.ran == []

    asyncio.run(played())


def make_gate(client: PlacetClient, hook: HumanInTheLoopHook) -> Gate:
    return Gate([hook], MemorySaver(), agent="clerk", reviews=ServerReviews(client))


def test_an_adapters_calls_that_are_held_are_asked_about_anew(
    server: RunningServer, client: PlacetClient
) -> None:
    gate = make_gate(client, HumanInTheLoopHook({"*": ToolConfig(timeout=60, default="hold")}))
    first = gate.stop("k", [ToolCall(id="a", name="pay")])
    assert first is not None
    server.advance(minutes=1)
    server.sweep()
    second = gate.answer("k", None)
    assert second.undecided
    assert case_of(second)["case_id"] != case_of(first)["case_id"]


def test_an_edit_into_another_gated_tool_opens_a_case_of_its_own(client: PlacetClient) -> None:
    gate = make_gate(client, HumanInTheLoopHook({"*": True}))
    first = gate.stop("k", [ToolCall(id="a", name="pay")], schemas={"pay": None, "send": None})
    assert first is not None
    again = gate.answer("k", first.edit("a", {"to": "x"}, name="send"))
    assert [one.name for one in again.undecided] == ["send"]
    assert case_of(again)["case_id"] != case_of(first)["case_id"]
    assert client.status(case_of(first)["case_id"])["status"] == "cancelled"


def test_a_server_that_refuses_the_case_leaves_the_calls_waiting(server: RunningServer) -> None:
    with PlacetClient(server.url, "not-a-key") as stranger:
        gate = make_gate(stranger, HumanInTheLoopHook({"*": True}))
        waiting = gate.stop("k", [ToolCall(id="a", name="pay")])
    assert waiting is not None
    assert waiting.case is None


def test_a_decision_on_the_page_counts_although_another_call_was_decided_elsewhere(
    client: PlacetClient, server: RunningServer
) -> None:
    clerk = Clerk(client)
    waiting = expect_interruption(clerk.agent.invoke("go", thread_id="t"))
    press(server, client, waiting, "approve")
    expect_interruption(clerk.agent.resume("t", {"a": {"decision": "reject", "reason": "not that file"}}))
    expect_result(clerk.agent.resume("t"))
    assert clerk.office.ran == [("execute_sql", "DROP TABLE t")]


def test_what_a_person_refused_on_the_page_no_code_approves_afterwards(
    client: PlacetClient, server: RunningServer
) -> None:
    clerk = Clerk(client)
    waiting = expect_interruption(clerk.agent.invoke("go", thread_id="t"))
    press(server, client, waiting, "reject")
    with pytest.raises(InvalidFeedback, match="already decided"):
        clerk.agent.resume("t", waiting.approve_all())
    expect_result(clerk.agent.resume("t"))
    assert clerk.office.ran == []


def test_what_a_person_refused_on_the_page_no_adapter_approves_afterwards(
    client: PlacetClient, server: RunningServer
) -> None:
    gate = make_gate(client, HumanInTheLoopHook({"*": True}))
    waiting = gate.stop("k", [ToolCall(id="a", name="pay")])
    assert waiting is not None
    press(server, client, waiting, "reject")
    with pytest.raises(InvalidFeedback, match="already decided"):
        gate.answer("k", waiting.approve_all())
    assert [each.result for each in gate.answer("k", None).tool_feedbacks] == [FeedbackResult.REJECTED]


def test_what_a_person_changed_on_the_page_may_still_be_rejected_in_code(
    client: PlacetClient, server: RunningServer
) -> None:
    gate = make_gate(client, HumanInTheLoopHook({"*": True}))
    waiting = gate.stop("k", [ToolCall(id="a", name="pay", arguments={"to": "x"})], schemas={"pay": None})
    assert waiting is not None
    changed = {"decision": "edit", "arguments": {"to": "y"}}
    with server.client() as person:
        respond = case_of(waiting)["review_url"].replace("?", "/respond?", 1)
        answered = person.post(respond, json={"action": "edit", "data": {"decisions": {"a": changed}}})
        assert answered.status_code == 200, answered.text
    with pytest.raises(InvalidFeedback, match="already decided"):
        gate.answer("k", waiting.approve_all())
    assert [each.result for each in gate.answer("k", waiting.reject_all("no")).tool_feedbacks] == [
        FeedbackResult.REJECTED
    ]


def test_what_a_person_approved_on_the_page_is_not_changed_in_code(
    client: PlacetClient, server: RunningServer
) -> None:
    gate = make_gate(client, HumanInTheLoopHook({"*": True}))
    waiting = gate.stop("k", [ToolCall(id="a", name="pay", arguments={"to": "x"})], schemas={"pay": None})
    assert waiting is not None
    press(server, client, waiting, "approve")
    with pytest.raises(InvalidFeedback, match="already decided"):
        gate.answer("k", waiting.edit("a", {"to": "y"}))
    [decided] = gate.answer("k", None).tool_feedbacks
    assert (decided.result, decided.arguments) == (FeedbackResult.APPROVED, {"to": "x"})


def test_nothing_is_approved_while_nobody_can_see_what_the_page_says(
    client: PlacetClient, server: RunningServer
) -> None:
    away = False

    class AtTimesAway(ServerReviews):
        def poll_case(self, case: Any) -> Any:
            if away:
                raise Unavailable
            return super().poll_case(case)

    office, hook = Office(), HumanInTheLoopHook(GATED)
    reviews = AtTimesAway(client, inline_actions=["approve", "reject"])
    agent = ReactAgent(
        "clerk", Scripted(TWO, "done"), office.tools, [hook], reviews=reviews, saver=MemorySaver()
    )
    waiting = expect_interruption(agent.invoke("go", thread_id="t"))
    away = True
    with pytest.raises(Unavailable):
        agent.resume("t", waiting.approve_all())
    assert office.ran == []
    away = False
    expect_result(agent.resume("t", waiting.approve_all()))
    assert len(office.ran) == 2


def test_a_message_that_cancels_the_calls_withdraws_their_case(client: PlacetClient) -> None:
    hook = HumanInTheLoopHook(GATED, on_new_message="cancel")
    clerk = Clerk(client, None, TWO, "as you like", hook=hook)
    waiting = expect_interruption(clerk.agent.invoke("go", thread_id="t"))
    expect_result(clerk.agent.invoke("never mind", thread_id="t"))
    assert client.status(case_of(waiting)["case_id"])["status"] == "cancelled"


def test_an_edit_into_another_gated_tool_withdraws_the_case_that_shows_the_old_call(
    client: PlacetClient,
) -> None:
    clerk = Clerk(client)
    before = expect_interruption(clerk.agent.invoke("go", thread_id="t"))
    edit: CallDecision = {"decision": "edit", "name": "execute_sql", "arguments": {"query": "SELECT 1"}}
    after = expect_interruption(clerk.agent.resume("t", {"a": edit}))
    assert case_of(after)["case_id"] != case_of(before)["case_id"]
    assert client.status(case_of(before)["case_id"])["status"] == "cancelled"


def test_what_no_server_could_be_told_leaves_the_calls_waiting(client: PlacetClient) -> None:
    clerk = Clerk(client)
    waiting = expect_interruption(clerk.agent.invoke("go", thread_id="half a character \ud800"))
    assert waiting.case is None
    expect_result(clerk.agent.resume("half a character \ud800", waiting.approve_all()))


def test_a_queued_message_is_answered_with_where_the_calls_can_be_decided(client: PlacetClient) -> None:
    clerk = Clerk(client, hook=HumanInTheLoopHook(GATED, on_new_message="queue"))
    waiting = expect_interruption(clerk.agent.invoke("go", thread_id="t"))
    assert case_of(expect_interruption(clerk.agent.invoke("and then?", thread_id="t"))) == case_of(waiting)


class DyingSaver(MemorySaver):
    """As a process that is killed when it has asked, and before it could keep which case that was."""

    mortal = True

    def put(self, checkpoint: Checkpoint, **named: Any) -> None:
        if self.mortal and checkpoint.case is not None:
            raise KeyboardInterrupt
        super().put(checkpoint, **named)


def test_a_callback_finds_the_thread_of_one_who_died_when_it_had_asked(
    server: RunningServer, client: PlacetClient
) -> None:
    saver, asked = DyingSaver(), []

    class Asks(ServerReviews):
        def open_case(self, interruption: InterruptionMetadata, **named: Any) -> Any:
            asked.append(replace(interruption, case=super().open_case(interruption, **named)))
            return asked[-1].case

    hook = HumanInTheLoopHook(GATED)
    dying = ReactAgent("clerk", Scripted(TWO), Office().tools, [hook], saver, reviews=Asks(client))
    with pytest.raises(KeyboardInterrupt):
        dying.invoke("go", thread_id="t")
    press(server, client, asked[0], "approve")
    saver.mortal = False
    office = Office()
    later = ReactAgent("clerk", Scripted(TWO, "done"), office.tools, [hook], saver, reviews=Asks(client))
    moved = resume_pending(later, case_id=case_of(asked[0])["case_id"])
    assert expect_result(moved["t"]).text == "done"
    assert len(office.ran) == 2


def test_two_who_ask_at_once_about_the_same_calls_both_learn_where_they_are_decided() -> None:
    agents: list[ReactAgent] = []

    class Page:
        """While the first one asks, another one looks after the threads that wait."""

        def open_case(
            self, interruption: InterruptionMetadata, *, agent: str, attempt: int = 0
        ) -> dict[str, Any]:
            if agents:
                agents.pop().resume("t")
            return {"case_id": f"{interruption.id}-{attempt}"}

        def poll_case(self, case: Any) -> None:
            return None

        def withdraw(self, case: Any, reason: str) -> None:
            return None

    saver, hook = MemorySaver(), HumanInTheLoopHook(GATED)
    first, second = (
        ReactAgent("clerk", Scripted(TWO, "done"), Office().tools, [hook], saver, reviews=Page())
        for _ in range(2)
    )
    agents.append(second)
    waiting = expect_interruption(first.invoke("go", thread_id="t"))
    assert case_of(waiting)["case_id"] == f"{waiting.id}-0"
    expect_result(first.resume("t", waiting.approve_all()))


def test_two_who_make_the_same_durable_call_at_once_both_learn_where_it_is_decided() -> None:
    gates: list[Gate] = []

    class Page:
        def open_case(
            self, interruption: InterruptionMetadata, *, agent: str, attempt: int = 0
        ) -> dict[str, Any]:
            if gates:
                gates.pop().answer("k", None)
            return {"case_id": f"{interruption.id}-{attempt}"}

        def poll_case(self, case: Any) -> None:
            return None

        def withdraw(self, case: Any, reason: str) -> None:
            return None

    saver, hook = MemorySaver(), HumanInTheLoopHook({"*": True})
    first, second = (Gate([hook], saver, reviews=Page()) for _ in range(2))
    gates.append(second)
    waiting = first.stop("k", [ToolCall(id="a", name="pay")])
    assert waiting is not None
    assert case_of(waiting)["case_id"] == f"{waiting.id}-0"
