"""Who asks: the verified principal in our voice, and what the caller calls itself as its own words."""

from typing import Any

import httpx
import pytest

from placet.reviews.registry import SAMPLES
from tests.pages.markup import Markup
from tests.server.inboxes import person
from tests.server.running import RunningServer

BOAST = "CFO Office – Payroll (verified)"
PAYMENT = {
    "type": "approval",
    "prompt": "Pay 40,000?",
    "context": {"artifact": "Payroll"},
    "service": BOAST,
    "agent": "Treasury",
}


def text_of(html: str) -> str:
    return " ".join(Markup(html).text.split())


def test_a_caller_that_calls_itself_the_cfo_office_does_not_get_our_voice(
    server: RunningServer, client: httpx.Client
) -> None:
    hitl = server.open(client, **PAYMENT)
    with server.page(hitl) as page:
        text = text_of(page.text)
        assert (
            "acme asks for your approval Says it is: CFO Office – Payroll (verified), through Treasury"
            in text
        )
        assert text.count(BOAST) == 1
        assert f'<q class="said-inline"><bdi>{BOAST}</bdi></q>' in page.text
        answered = text_of(page.post("respond", {"action": "approve"}).text)
    assert BOAST not in answered
    assert "acme can read the answer now." in answered


def test_the_inbox_names_the_principal_and_quotes_what_it_calls_itself(
    server: RunningServer, client: httpx.Client
) -> None:
    server.open(client, **PAYMENT)
    with person(server, server.create_key("ada", "inbox:all")) as ada:
        text = ada.get_list(words="payroll acme")
    assert "from <bdi>acme</bdi> · Says it is:" in text
    assert f"from <bdi>{BOAST}" not in text


def test_the_202_names_the_principal_for_messengers(server: RunningServer, client: httpx.Client) -> None:
    response = client.post("/v1/cases", json={**PAYMENT, "context": {"principal": {"name": "CFO"}}})
    body = response.json()
    assert body["data"] == {"service": {"name": BOAST}, "principal": {"name": "acme"}}
    assert body["hitl"]["context"] == {"principal": {"name": "CFO"}}


@pytest.mark.parametrize("name", ["acme", "CFO Office", "acme\N{RIGHT-TO-LEFT OVERRIDE}"])
def test_a_declared_name_that_resembles_the_principal_stays_a_declared_name(
    server: RunningServer, client: httpx.Client, name: str
) -> None:
    hitl = server.open(client, **{**PAYMENT, "service": name, "agent": None})
    with server.page(hitl) as page:
        assert "acme asks for your approval" in text_of(page.text)
        assert ("Says it is:" in page.text) == (name != "acme")


def test_the_servers_own_name_is_not_shown_as_the_callers_words(
    server: RunningServer, client: httpx.Client
) -> None:
    with server.page(server.open(client)) as page:
        assert "acme asks" in text_of(page.text)
        assert "Says it is" not in page.text


@pytest.mark.parametrize(
    "held",
    [SAMPLES["held_message"].example()["context"]["held_message"], {}, None, "text", [], {"matter": 1}],
)
def test_an_ordinary_key_does_not_get_the_page_of_the_relay(client: httpx.Client, held: Any) -> None:
    draft = {"type": "approval", "prompt": "May it pass?", "context": {"held_message": held, "more": 1}}
    response = client.post("/v1/cases", json=draft)
    assert response.status_code == 400
    assert response.json()["message"] == (
        "context.held_message: only the relay may send this. Rename the field."
    )


def test_an_admin_key_does_not_get_the_page_of_the_relay_either(server: RunningServer) -> None:
    with server.client(server.create_key("root", "cases:write", "admin")) as root:
        response = root.post("/v1/cases", json=SAMPLES["held_message"].example())
        assert (response.status_code, response.json()["error"]) == (400, "invalid_request")
