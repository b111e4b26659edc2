"""A review type is its folder and one registration; every consumer knows it then."""

import inspect
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from click.testing import CliRunner

from placet.agent import Decided, read_case
from placet.channels.texts import TextLimits, action_label, buttons_of, find_tone, lines_of
from placet.cli import ask as ask_command
from placet.mcp.tools import QuestionTools, build_question_tool
from placet.ports.channel import Button, Card
from placet.reviews.registry import DECLARATIONS, REVIEW_TYPES, SAMPLES
from tests.reviews.rating.declaration import RATING
from tests.server.running import RunningServer, running


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DECLARATIONS, RATING.name, RATING)


@pytest.fixture
def server(registered: None, tmp_path: Path) -> Iterator[RunningServer]:
    with running(tmp_path) as server:
        yield server


def asked_by_command(monkeypatch: pytest.MonkeyPatch, *words: str) -> dict[str, Any]:
    """Return the body that `placet ask` would send."""
    drafts: list[dict[str, Any]] = []
    monkeypatch.setattr(ask_command, "run", lambda asking, how: drafts.append(asking.args[0].args[3]))
    ran = CliRunner().invoke(ask_command.ask, [*words, "--key", "k"])
    assert ran.exit_code == 0, ran.output
    return drafts[0]


def test_it_is_opened_by_http_answered_on_its_page_and_polled(server: RunningServer) -> None:
    with server.client(server.api_key) as client:
        hitl = server.open(client, **REVIEW_TYPES["x-rating"].example(), service="Kitchen")
        with server.page(hitl) as page:
            assert "asks you for a rating" in page.text
            assert "Your stars are counted." in page.text
            assert "Give these stars" in page.text
            done = page.post("respond", {"action": "rate"})
        assert "Rated" in done.text
        assert "The stars are counted." in done.text
        assert client.get(hitl["poll_url"]).json()["result"]["action"] == "rate"


def test_a_press_of_a_button_answers_it(server: RunningServer) -> None:
    with server.client(server.api_key) as client:
        hitl = server.open(client, **RATING.example, inline_actions=["rate", "abstain"])
        assert server.press(hitl, "abstain").status_code == 200
    assert Decided(case_id=hitl["case_id"], action="abstain").against


def test_the_command_line_asks_it(server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    overview = CliRunner().invoke(ask_command.ask, ["--help"]).output
    assert "x-rating" in overview
    assert "Ask a person for a rating." in overview
    draft = asked_by_command(monkeypatch, "x-rating", "How was it?", "--subject", "Soup", "--inline")
    assert draft["context"] == {"subject": "Soup"}
    with server.client(server.api_key) as client:
        hitl = server.open(client, **draft)
    case = read_case(
        202,
        msgspec.json.encode({"status": "human_input_required", "hitl": hitl}),
        url=server.url,
        now=datetime.now(UTC),
    )
    assert case is not None
    assert case.inline_actions == ("rate", "abstain")


@pytest.mark.anyio
async def test_an_assistant_asks_it() -> None:
    class Recorder:
        async def ask(self, *said: Any) -> Any:
            return said

    name, title, tool = build_question_tool(cast(QuestionTools, Recorder()), RATING)
    assert (name, title, tool.__doc__) == ("ask_rating", "Ask for a rating", "Ask a person for a rating.")
    assert {"prompt", "subject", "facts", "timeout"} <= set(inspect.signature(tool).parameters)
    _, type, prompt, context, _, _ = await tool(None, "How was it?", subject="Soup")
    assert (type, prompt, context) == ("x-rating", "How was it?", {"subject": "Soup"})


def test_a_messenger_shows_it() -> None:
    card = Card(
        prompt="How was it?",
        message="",
        type="x-rating",
        source="Kitchen",
        review_url="https://kitchen.example/review/1",
        expires_at=datetime(2026, 11, 17, tzinfo=UTC),
        default_action="skip",
        buttons=(Button(action="rate", label="", reference="r"),),
    )
    lines = lines_of(card, TextLimits())
    assert lines.heading == "Kitchen asks you for a rating"
    assert lines.link_label == "Open and rate"
    assert [button.label for button in buttons_of(card, 5, label=40)] == ["Give these stars"]
    assert (find_tone("rate"), action_label("abstain")) == ("positive", "Do not rate")


def test_the_demo_and_the_inbox_know_it() -> None:
    assert "x-rating" in SAMPLES
    assert SAMPLES["x-rating"].example()["context"] == {"subject": "The soup"}
