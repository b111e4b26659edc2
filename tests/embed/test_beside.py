"""Flask and Django with Placet beside them: the service asks through the client, people answer elsewhere."""

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import django
import flask
import httpx
import msgspec
import pytest
from django.conf import settings as django_settings
from django.http import HttpRequest, JsonResponse
from django.test import Client as DjangoClient
from django.urls import path

from placet import PlacetClient, ServerRefused
from tests.cli.process import ServerProcess, placet, serving
from tests.server.running import PRESSED, ReviewPage
from tests.waiting import PATIENCE_S


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("beside")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[ServerProcess]:
    with serving(folder) as server:
        server.url()
        yield server


@pytest.fixture(scope="module")
def decisions(folder: Path, server: ServerProcess) -> Iterator[PlacetClient]:
    """The service's own client of the server beside it, with a key that an operator made."""
    key = placet(folder, "key", "create", "shop", "--db", "cases.db").stdout.strip()
    with PlacetClient(server.url(), key) as client:
        yield client


def answer(server: ServerProcess, hitl: dict[str, Any], action: str) -> None:
    """What the person does with the link that the service handed out."""
    with server.client(follow_redirects=True) as person:
        page = ReviewPage(person, person.get(hitl["review_url"]))
        assert page.post("respond", {"action": action}).response.status_code == 200


def flask_app(decisions: PlacetClient) -> flask.Flask:
    app = flask.Flask(__name__)

    @app.post("/refunds")
    def refund() -> Any:
        prompt = flask.request.get_json()["prompt"]
        return decisions.open("approval", prompt, context={"artifact": "20 EUR"}, timeout="2h"), 202

    @app.get("/refunds/<case_id>")
    def look(case_id: str) -> Any:
        found = decisions.status(case_id)
        return {"refunded": found.get("result", {}).get("action") == "approve"}

    @app.delete("/refunds/<case_id>")
    def withdraw(case_id: str) -> Any:
        return decisions.cancel(case_id, reason="customer called")

    @app.errorhandler(ServerRefused)
    def refused(error: ServerRefused) -> Any:
        return error.body(), error.status

    return app


def test_a_flask_service_asks_looks_and_withdraws(server: ServerProcess, decisions: PlacetClient) -> None:
    agent = flask_app(decisions).test_client()
    asked = agent.post("/refunds", json={"prompt": "Refund 20 EUR?"})
    assert asked.status_code == 202
    hitl = asked.get_json()["hitl"]
    assert agent.get(f"/refunds/{hitl['case_id']}").get_json() == {"refunded": False}
    answer(server, hitl, "approve")
    assert agent.get(f"/refunds/{hitl['case_id']}").get_json() == {"refunded": True}
    second = agent.post("/refunds", json={"prompt": "Refund 30 EUR?"}).get_json()["hitl"]
    withdrawn = agent.delete(f"/refunds/{second['case_id']}").get_json()
    assert (withdrawn["status"], withdrawn["reason"]) == ("cancelled", "customer called")


def test_what_the_server_refuses_a_flask_service_passes_on(decisions: PlacetClient) -> None:
    agent = flask_app(decisions).test_client()
    blank = agent.post("/refunds", json={"prompt": "   "})
    assert (blank.status_code, blank.get_json()["error"]) == (400, "invalid_request")
    missing = agent.get("/refunds/review_nothing")
    assert (missing.status_code, missing.get_json()["error"]) == (404, "not_found")


def django_agent(decisions: PlacetClient) -> DjangoClient:
    def publish(request: HttpRequest) -> JsonResponse:
        text = msgspec.json.decode(request.body)["text"]
        asked = decisions.open("confirmation", "Publish this?", context={"text": text})
        return JsonResponse(asked, status=202)

    def published(request: HttpRequest, case_id: str) -> JsonResponse:
        return JsonResponse(decisions.status(case_id))

    urls = ModuleType("urls_of_a_django_service")
    vars(urls)["urlpatterns"] = [path("publish", publish), path("published/<case_id>", published)]
    if not django_settings.configured:
        django_settings.configure(ROOT_URLCONF=urls, ALLOWED_HOSTS=["testserver"], SECRET_KEY="for tests")
        django.setup()
    return DjangoClient()


def test_a_django_service_asks_and_looks(server: ServerProcess, decisions: PlacetClient) -> None:
    agent = django_agent(decisions)
    asked = agent.post("/publish", {"text": "News"}, content_type="application/json")
    assert asked.status_code == 202
    hitl = asked.json()["hitl"]
    answer(server, hitl, "confirm")
    found = agent.get(f"/published/{hitl['case_id']}").json()
    assert (found["status"], found["result"]["action"]) == ("completed", "confirm")


def test_a_service_may_wait_for_the_answer(server: ServerProcess, decisions: PlacetClient) -> None:
    asked = decisions.open("confirmation", "Go?", inline_actions=["confirm"])["hitl"]

    def sleep(seconds: float) -> None:  # while the service waits, someone presses
        token = {"Authorization": f"Bearer {asked['submit_token']}"}
        httpx.post(
            asked["submit_url"], json={"action": "confirm", **PRESSED}, headers=token, timeout=PATIENCE_S
        )

    assert decisions.wait(asked["case_id"], sleep=sleep)["result"]["action"] == "confirm"
