"""A review type is its folder and one registration; every consumer knows it then."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from mcp import Client
from mcp.types import TextContent

from placet.agent import Decided, PendingCases
from placet.channels.telegram import TelegramChannel
from placet.cli.main import cli
from placet.mcp.server import Questions, build_server
from placet.ports.channel import SentMessage
from placet.reviews.registry import DECLARATIONS, REVIEW_TYPES, register
from placet.testing.clock import DAYBREAK
from tests.channels.loopback import loopback
from tests.channels.scene import PATIENCE_S, Scene
from tests.channels.telegram.bot_api import CHAT, SECRET, TOKEN, BotApi, TelegramHarness
from tests.mcp.assistant import ERA, Person, answer, read_structured, run
from tests.server.running import RunningServer, running

SOUP: dict[str, Any] = {"prompt": "How was it?", "subject": "Soup"}


@pytest.fixture(scope="module", autouse=True)
def registered() -> Iterator[None]:
    declared = register("tests.reviews.rating")
    yield
    del DECLARATIONS[declared.name]


@pytest.fixture(scope="module")
def server(registered: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("server"), present=True) as server:
        yield server


def open_example(server: RunningServer, **more: Any) -> dict[str, Any]:
    with server.client(server.api_key) as client:
        return server.open(client, **REVIEW_TYPES["x-rating"].example(), **more)


def find_answer(server: RunningServer, hitl: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    with server.client(server.api_key) as client:
        result = client.get(hitl["poll_url"]).json()["result"]
    return result["action"], result["data"]


def command(server: RunningServer, folder: Path, *words: str) -> Result:
    env = {"PLACET_SERVER": server.url, "PLACET_KEY": server.api_key, "XDG_STATE_HOME": str(folder)}
    return CliRunner().invoke(cli, words, env=env)


def test_a_name_is_registered_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert register("tests.reviews.rating") is DECLARATIONS["x-rating"]
    (tmp_path / "other_rating").mkdir()
    (tmp_path / "other_rating/declaration.py").write_text(
        "from msgspec.structs import replace\n"
        "from tests.reviews.rating.declaration import RATING\n"
        "DECLARATION = replace(RATING, title='Another')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match="a review type 'x-rating' is already registered"):
        register("other_rating")


def test_http_opens_and_answers_it(server: RunningServer) -> None:
    hitl = open_example(server)
    assert (hitl["type"], hitl["context"]) == ("x-rating", {"subject": "Tomato soup"})
    assert answer(hitl["review_url"], "rate", stars=4).status_code == 200
    assert find_answer(server, hitl) == ("rate", {"stars": 4})


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"context": {}}, "context.subject must say what is rated"),
        ({"default_action": "approve", "allow_default_approve": True}, "approve is not allowed"),
        ({"inline_actions": ["rate"]}, "'rate' cannot be an inline action"),
        ({"actions": ["applaud"]}, "x-rating has its own"),
    ],
)
def test_its_rules_refuse_a_question(server: RunningServer, fields: dict[str, Any], complaint: str) -> None:
    with server.client(server.api_key) as client:
        refused = client.post("/v1/cases", json={**REVIEW_TYPES["x-rating"].example(), **fields})
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_request")
    assert complaint in refused.json()["message"]


def test_the_discovery_document_lists_it(server: RunningServer) -> None:
    with server.client() as client:
        assert "x-rating" in client.get("/.well-known/hitl.json").text


def test_a_person_answers_on_its_page(server: RunningServer) -> None:
    hitl = open_example(server)
    with server.page(hitl) as page:
        assert '<p class="rated">Tomato soup</p>' in page.text
        assert "asks you for a rating" in page.text
        assert "Your stars are counted." in page.text
        wrong = page.post("respond", {"action": "rate", "stars": "6"})
        assert wrong.response.status_code == 400
        assert '<a href="#f-stars"><b>Number of stars</b> Give 1 to 5 stars.</a>' in wrong.text
        assert 'value="6"' in wrong.text
        done = page.post("respond", {"action": "rate", "stars": "5"})
    assert "Rated" in done.text
    assert "The stars are counted." in done.text
    assert "Number of stars" in done.text
    assert find_answer(server, hitl) == ("rate", {"stars": 5})


def test_the_command_line_asks_it(server: RunningServer, tmp_path: Path) -> None:
    overview = command(server, tmp_path, "ask", "--help").output
    assert "x-rating" in overview
    assert "Ask a person for a rating." in overview
    words = ("ask", "x-rating", SOUP["prompt"], "--subject", SOUP["subject"], "--inline", "--max-wait", "0")
    asked = command(server, tmp_path, *words)
    case = msgspec.json.decode(asked.stdout)
    assert (case["status"], case["type"]) == ("pending", "x-rating")
    assert answer(case["review_url"], "abstain").status_code == 200
    poll_url = f"{server.url}/v1/reviews/{case['case_id']}/status"
    waited = command(server, tmp_path, "wait", poll_url)
    assert waited.exit_code == 10, waited.output
    assert msgspec.json.decode(waited.stdout)["action"] == "abstain"


def test_an_assistant_asks_it(server: RunningServer, tmp_path: Path) -> None:
    person = Person(then=partial(answer, action="rate", stars=3))

    async def main() -> tuple[str, dict[str, Any]]:
        with closing(PendingCases(tmp_path / "agent.db")) as cases:
            questions = Questions(server=server.url, key=server.api_key, cases=cases, trusted=[server.url])
            mcp_server = build_server(questions, key=server.api_key)
            async with (
                questions,
                Client(mcp_server, elicitation_callback=person, mode=ERA["2026"]) as assistant,
            ):
                (tool,) = [one for one in (await assistant.list_tools()).tools if one.name == "ask_rating"]
                assert (tool.title, tool.description) == ("Ask for a rating", "Ask a person for a rating.")
                assert {"prompt", "subject"} == set(tool.input_schema["required"])
                prompt = await assistant.get_prompt("when-to-ask-a-person")
                content = prompt.messages[0].content
                assert isinstance(content, TextContent)
                result = await assistant.call_tool("ask_rating", {**SOUP, "wait_seconds": 30})
                return content.text, read_structured(result)

    instructions, result = run(main())
    assert "- ask_rating: you want to know how good something is." in instructions
    assert (result["status"], result["action"], result["data"]) == ("completed", "rate", {"stars": 3})
    assert "Use data.stars." in result["next_step"]


@pytest.mark.anyio
async def test_a_messenger_shows_it_and_a_press_answers_it(server: RunningServer, tmp_path: Path) -> None:
    question = {**REVIEW_TYPES["x-rating"].example(), "inline_actions": ["abstain"]}
    api = BotApi()
    async with loopback(api.handle) as platform:
        channel = TelegramChannel(token=TOKEN, chat_id=str(CHAT), webhook_secret=SECRET, api_url=platform.url)
        harness = TelegramHarness(api, platform, channel)
        scene = Scene(harness, server, tmp_path, question, answerers=["7"])
        task = await scene.ask()
        (shown,) = harness.list_messages()
        assert shown.text.startswith("acme (127.0.0.1) asks you for a rating")
        assert (shown.labels, shown.problems) == (("Do not rate",), ())
        assert "Open and rate" in str(api.messages)
        ticket = SentMessage(channel="telegram", conversation_id=str(CHAT), message_id="1", sent_at=DAYBREAK)
        await scene.board.handle_webhook(
            harness.press(ticket, scene.reference("Do not rate"), user_id="7", name="Ada")
        )
        outcome = await asyncio.wait_for(task, PATIENCE_S)
        await platform.wait_until(lambda: "Not rated" in harness.list_messages()[0].text)
        await scene.aclose()
        await channel.aclose()
    assert isinstance(outcome, Decided)
    assert (outcome.action, outcome.against) == ("abstain", True)
