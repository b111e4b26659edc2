"""Buttons in a messenger: who may press them, what a press does, how every card is updated."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from placet.agent import AsyncAgent, Cancelled, Decided, Notice, PendingCases
from placet.agent.channel_bridge import ChannelBridge, build_card, build_closure
from placet.channels.interaction_handler import QUESTION_CLOSED
from placet.channels.texts import describe_closure
from placet.errors import ChannelRefused, SettingsError, SignatureInvalid
from placet.ports.channel import (
    Card,
    CaseClosure,
    Interaction,
    InteractionUser,
    SentMessage,
    WebhookRequest,
    WebhookResult,
)
from tests.agent.clocks import make_ticking_clock
from tests.agent.test_flow import CASE
from tests.server.running import EXAMPLE, RunningServer, running

ADA = InteractionUser(platform="telegram", user_id="7", name="Ada")


class Messenger:
    """A messenger in memory that keeps all it is given."""

    name = "telegram"

    def __init__(self) -> None:
        self.cards: list[Card] = []
        self.settled: list[tuple[str, CaseClosure]] = []
        self.answers: list[tuple[str, str]] = []
        self.stuck: set[str] = set()
        self.told = asyncio.Event()

    async def send(self, card: Card) -> SentMessage:
        self.cards.append(card)
        self.told.set()
        return SentMessage(
            channel=self.name, conversation_id="1", message_id=str(len(self.cards)), sent_at=card.expires_at
        )

    async def mark_closed(self, ticket: SentMessage, card: Card, ended: CaseClosure) -> None:
        if ticket.message_id in self.stuck:
            raise ChannelRefused()
        self.settled.append((ticket.message_id, ended))

    async def reply(self, press: Interaction, text: str) -> None:
        self.answers.append((press.id, text))

    async def handle_webhook(self, call: WebhookRequest) -> WebhookResult:
        if call.headers.get("secret") != "right":
            raise SignatureInvalid()
        return WebhookResult(interactions=(self.press(int(call.query["card"]), call.query["action"]),))

    def listen(self) -> AsyncIterator[Sequence[Interaction]]:
        raise SettingsError()

    async def aclose(self) -> None:
        """Nothing is open."""

    def press(
        self, card: int, action: str, *, id: str = "press-1", user: InteractionUser = ADA
    ) -> Interaction:
        button = next(one for one in self.cards[card].buttons if one.action == action)
        return Interaction(id=id, reference=button.reference, user=user, via="telegram_inline_button")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("server")) as server:
        yield server


class Scene:
    """An agent, its messenger and one question."""

    def __init__(self, server: RunningServer, path: Path, *, answerers: Sequence[str] = ("7",)) -> None:
        self.messenger = Messenger()
        cases = PendingCases(path)
        self.board = ChannelBridge(self.messenger, cases, answerers=answerers, clock=server.clock)
        self.agent = AsyncAgent(tell=self.board.tell, pending=cases, clock=make_ticking_clock(server))
        self.board.nudge = self.agent.nudge
        self._server = server

    async def ask(self, **draft: Any) -> "asyncio.Task[Any]":
        body = {**EXAMPLE, "inline_actions": ["confirm", "cancel"], **draft}
        headers = {"Authorization": f"Bearer {self._server.api_key}"}
        asking = self.agent.request("POST", f"{self._server.url}/v1/cases", json=body, headers=headers)
        self.messenger.told.clear()
        task = asyncio.create_task(asking)
        await asyncio.wait_for(self.messenger.told.wait(), 60)
        return task

    def play(self, scenes: Callable[[], Awaitable[None]]) -> None:
        """Play it to its end, and tidy up."""

        async def whole() -> None:
            try:
                await scenes()
            finally:
                await self.board.aclose()
                await self.agent.aclose()

        asyncio.run(whole())


@pytest.fixture
def scene(server: RunningServer, tmp_path: Path) -> Scene:
    return Scene(server, tmp_path / "agent.db")


def test_press_becomes_the_decision_and_updates_the_card(scene: Scene) -> None:
    async def play() -> None:
        task = await scene.ask()
        (card,) = scene.messenger.cards
        assert [button.action for button in card.buttons] == ["confirm", "cancel"]
        await scene.board.handle_interaction(scene.messenger.press(0, "confirm"))
        outcome = await asyncio.wait_for(task, 60)
        assert isinstance(outcome, Decided)
        assert outcome.raw["submission_context"]["submitted_by"]["platform_user_id"] == "7"
        assert outcome.raw["submission_context"]["submitted_via"] == "telegram_inline_button"

    scene.play(play)
    assert scene.messenger.answers == [("press-1", "Your answer was recorded.")]
    ((_, ended),) = scene.messenger.settled
    assert (ended.how, ended.action) == ("decided", "confirm")


def test_a_card_says_which_service_asks_and_where_it_is(scene: Scene) -> None:
    async def play() -> None:
        tasks = [await scene.ask(), await scene.ask(service="Parcel Desk")]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    scene.play(play)
    assert [(card.source, card.facts[0]) for card in scene.messenger.cards] == [
        ("acme (127.0.0.1)", ("Says it is", "Placet")),
        ("acme (127.0.0.1)", ("Says it is", "Parcel Desk")),
    ]


def test_no_card_carries_a_token(scene: Scene) -> None:
    async def play() -> None:
        task = await scene.ask()
        (pending,) = scene.agent.pending()
        card = scene.messenger.cards[0]
        assert pending.case.submit_token
        assert pending.case.submit_token not in repr(card)
        assert all(len(button.reference) <= 32 for button in card.buttons)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    scene.play(play)


def test_a_stranger_cannot_answer_and_is_told_so(scene: Scene) -> None:
    async def play() -> None:
        task = await scene.ask()
        stranger = InteractionUser(platform="telegram", user_id="8")
        await scene.board.handle_interaction(scene.messenger.press(0, "confirm", user=stranger))
        assert not task.done()
        await scene.board.handle_interaction(scene.messenger.press(0, "cancel", id="press-2"))
        outcome = await asyncio.wait_for(task, 60)
        assert isinstance(outcome, Decided)
        assert outcome.action == "cancel"

    scene.play(play)
    assert scene.messenger.answers[0][1].startswith("You are not allowed")


@pytest.mark.parametrize(
    ("user_id", "told"),
    [
        ("8", "You are not allowed to answer this here."),  # may answer the other agent's questions
        ("7", "This answer cannot be given here. Open the link to answer."),
    ],
)
def test_press_received_by_another_agent_counts_only_for_its_answerers(
    server: RunningServer, scene: Scene, tmp_path: Path, user_id: str, told: str
) -> None:
    other = Scene(server, tmp_path / "agent.db", answerers=["8"])

    async def play() -> None:
        task = await scene.ask()
        user = InteractionUser(platform="telegram", user_id=user_id)
        await other.board.handle_interaction(scene.messenger.press(0, "confirm", user=user))
        await other.board.aclose()
        await other.agent.aclose()
        assert not task.done()
        await scene.board.handle_interaction(scene.messenger.press(0, "cancel"))
        outcome = await asyncio.wait_for(task, 60)
        assert isinstance(outcome, Decided)
        assert outcome.action == "cancel"

    scene.play(play)
    assert other.messenger.answers == [("press-1", told)]


def test_button_counts_only_in_its_own_messenger(server: RunningServer, scene: Scene, tmp_path: Path) -> None:
    other = Scene(server, tmp_path / "agent.db", answerers=["7"])
    other.messenger.name = "discord"

    async def play() -> None:
        task = await scene.ask()
        await other.board.handle_interaction(scene.messenger.press(0, "confirm"))
        await other.board.aclose()
        await other.agent.aclose()
        assert not task.done()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    scene.play(play)
    assert other.messenger.answers[0][1].startswith("You are not allowed")


def test_without_anyone_who_may_answer_there_are_no_buttons(server: RunningServer, tmp_path: Path) -> None:
    closed = Scene(server, tmp_path / "agent.db", answerers=())

    async def play() -> None:
        task = await closed.ask()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    closed.play(play)
    assert closed.messenger.cards[0].buttons == ()


def test_repeated_press_is_submitted_once_and_gets_the_same_reply(scene: Scene) -> None:
    async def play() -> None:
        task = await scene.ask()
        press = scene.messenger.press(0, "confirm")
        await asyncio.gather(scene.board.handle_interaction(press), scene.board.handle_interaction(press))
        await asyncio.wait_for(task, 60)
        await scene.board.handle_interaction(press)

    scene.play(play)
    assert {text for _, text in scene.messenger.answers} == {"Your answer was recorded."}
    assert len(scene.messenger.answers) == 3


def test_a_button_pressed_twice_by_one_person_is_one_answer(scene: Scene) -> None:
    async def play() -> None:
        task = await scene.ask()
        task.cancel()  # or the question might be closed before the second tap is looked at
        await asyncio.gather(task, return_exceptions=True)
        presses = [scene.messenger.press(0, "confirm", id=id) for id in ("tap-1", "tap-2")]
        await asyncio.gather(*map(scene.board.handle_interaction, presses))

    scene.play(play)
    assert {text for _, text in scene.messenger.answers} == {"Your answer was recorded."}


def test_second_person_is_told_that_the_case_is_closed(server: RunningServer, scene: Scene) -> None:
    async def play() -> None:
        task = await scene.ask()
        (pending,) = scene.agent.pending()
        link = {"submit_url": pending.case.submit_url, "submit_token": pending.case.submit_token}
        await asyncio.to_thread(server.press, link, "confirm")
        await scene.board.handle_interaction(scene.messenger.press(0, "cancel"))
        outcome = await asyncio.wait_for(task, 60)
        assert isinstance(outcome, Decided)
        assert outcome.action == "confirm"

    scene.play(play)
    assert scene.messenger.answers[0][1] in (
        "This question is closed already. Your answer was not recorded.",
        QUESTION_CLOSED,
    )


def test_withdrawn_case_names_no_answerer(server: RunningServer, scene: Scene) -> None:
    async def play() -> None:
        task = await scene.ask()
        task.cancel()  # nobody follows it: the button is still there
        await asyncio.gather(task, return_exceptions=True)
        (pending,) = scene.agent.pending()
        with server.client(server.api_key) as owner:
            await asyncio.to_thread(owner.post, f"/v1/reviews/{pending.case.case_id}/cancel", json={})
        await scene.board.handle_interaction(scene.messenger.press(0, "confirm"))

    scene.play(play)
    closed = "This question is closed already. Your answer was not recorded."
    assert scene.messenger.answers == [("press-1", closed)]


@pytest.mark.parametrize("verified", [None, True, False])
def test_message_does_not_call_a_decision_approved_whose_signature_is_invalid(verified: bool | None) -> None:
    decided = Decided(case_id="c1", action="approve", data={}, verified=verified, is_affirmative=True)
    said = describe_closure(build_closure(decided, CASE.created_at))
    warning = ". But its signature is invalid: do not act on it"
    assert said.startswith("Approved, ")
    assert said.endswith(warning) is (verified is False)


def test_failing_update_of_one_card_does_not_stop_the_others(server: RunningServer, scene: Scene) -> None:
    scene.messenger.stuck.add("1")

    async def play() -> None:
        task = await scene.ask()
        (pending,) = scene.agent.pending()
        await scene.board.tell(Notice(name="reminder", case=pending.case))
        with server.client(server.api_key) as owner:
            await asyncio.to_thread(
                owner.post, f"/v1/reviews/{pending.case.case_id}/cancel", json={"reason": "Not needed."}
            )
        outcome = await asyncio.wait_for(task, 60)
        assert isinstance(outcome, Cancelled)

    scene.play(play)
    assert scene.messenger.cards[1].is_reminder
    ((copy, ended),) = scene.messenger.settled
    assert (copy, ended.how, ended.reason) == ("2", "withdrawn", "Not needed.")


def test_webhook_without_the_platforms_signature_is_refused(scene: Scene) -> None:
    async def play() -> None:
        task = await scene.ask()
        forged = WebhookRequest(method="POST", headers={}, body=b"", query={"card": "0", "action": "confirm"})
        with pytest.raises(SignatureInvalid):
            await scene.board.handle_webhook(forged)
        assert not task.done()
        genuine = WebhookRequest(method="POST", headers={"secret": "right"}, body=b"", query=forged.query)
        assert (await scene.board.handle_webhook(genuine)).status == 200
        assert isinstance(await asyncio.wait_for(task, 60), Decided)

    scene.play(play)


def test_a_button_of_an_ended_case_says_that_it_is_closed(scene: Scene) -> None:
    async def play() -> None:
        task = await scene.ask()
        late = scene.messenger.press(0, "cancel", id="late")
        await scene.board.handle_interaction(scene.messenger.press(0, "confirm"))
        await asyncio.wait_for(task, 60)
        await scene.board.handle_interaction(late)

    scene.play(play)
    assert scene.messenger.answers[-1] == ("late", QUESTION_CLOSED)


def test_press_repeated_during_a_slow_submit_is_submitted_once(server: RunningServer, tmp_path: Path) -> None:
    submitted: list[httpx.Request] = []

    async def slow(request: httpx.Request) -> httpx.Response:
        submitted.append(request)
        await asyncio.sleep(0)
        return httpx.Response(200 if len(submitted) == 1 else 409)

    scene = Scene(server, tmp_path / "agent.db")
    scene.board._http = httpx.AsyncClient(transport=httpx.MockTransport(slow))

    async def play() -> None:
        task = await scene.ask()
        press = scene.messenger.press(0, "confirm")
        await asyncio.gather(scene.board.handle_interaction(press), scene.board.handle_interaction(press))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    scene.play(play)
    assert len(submitted) == 1
    assert scene.messenger.answers == [("press-1", "Your answer was recorded.")] * 2


def test_failing_press_does_not_stop_the_others(server: RunningServer, tmp_path: Path) -> None:
    def broken(request: httpx.Request) -> httpx.Response:
        if b"cancel" in request.content:
            raise UnicodeError("nothing that a service should be able to cause")
        return httpx.Response(200)

    scene = Scene(server, tmp_path / "agent.db")
    scene.board._http = httpx.AsyncClient(transport=httpx.MockTransport(broken))

    async def play() -> None:
        task = await scene.ask()
        presses = [scene.messenger.press(0, one, id=one) for one in ("cancel", "confirm")]

        async def heard() -> AsyncIterator[Sequence[Interaction]]:
            for press in presses:
                yield [press]

        scene.messenger.listen = heard  # type: ignore[method-assign]
        await scene.board.listen()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    scene.play(play)
    assert [text.partition(".")[0] for _, text in scene.messenger.answers] == [
        "Your answer may not have been recorded",
        "Your answer was recorded",
    ]


@pytest.mark.parametrize(
    ("name", "source"),
    [
        (None, "ci.example"),
        ("Parcel Desk", "Parcel Desk (ci.example)"),
        ("Bank (bank.example)\n", "Bank bank.example (ci.example)"),
        ("x" * 500, "x" * 39 + "… (ci.example)"),
        ("()", "ci.example"),
    ],
)
def test_card_shows_the_verified_caller_before_the_host_that_vouches_for_it(
    name: str | None, source: str
) -> None:
    assert build_card(replace(CASE, principal=name), {}).source == source
    far = replace(CASE, principal=name, service_url="https://" + "a." * 30 + "example/")
    assert build_card(far, {}).source == "a." * 30 + "example"


def test_a_name_that_a_service_gives_itself_is_not_in_the_heading_of_a_card() -> None:
    card = build_card(replace(CASE, service_name="CFO Office (verified)"), {})
    assert card.source == "ci.example"
    assert card.facts[0] == ("Says it is", "CFO Office (verified)")
