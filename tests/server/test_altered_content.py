"""Over HTTP: a case whose stored content was altered is not shown, not answered and not polled."""

import asyncio
import logging

import apsw
import pytest

from tests.server.inboxes import person
from tests.server.running import ReviewPage, RunningServer
from tests.waiting import PATIENCE_S


def alter(server: RunningServer, case_id: str) -> None:
    """Change the prompt in the file, as somebody with access to it would."""
    connection = apsw.Connection(server.parts.settings.db)
    connection.execute(
        "UPDATE offers SET offer = CAST(replace(CAST(offer AS TEXT), 'Water', 'Uproot') AS BLOB)"
        " WHERE case_number = (SELECT number FROM cases WHERE id = ?)",
        (case_id,),
    )
    connection.close()
    writer = server.parts.store._writer  # type: ignore[attr-defined]

    async def notice() -> None:
        noticed = asyncio.Event()
        writer.add_change_listener(lambda changed: noticed.set() if changed is None else None)
        writer.check_other_processes()
        async with asyncio.timeout(PATIENCE_S):
            await noticed.wait()

    server.run(notice())


def test_every_way_to_an_altered_case_gets_503(
    own_server: RunningServer, caplog: pytest.LogCaptureFixture
) -> None:
    server = own_server
    with server.client(server.api_key) as agent, server.client(follow_redirects=True) as browser:
        hitl = server.open(agent, inline_actions=["confirm", "cancel"])
        page = browser.get(hitl["review_url"])
        fields = ReviewPage(browser, page).hidden_fields()
        alter(server, hitl["case_id"])
        with caplog.at_level(logging.ERROR, "placet.desk"):
            shown = browser.get(page.url)
        assert shown.status_code == 503
        assert "This question cannot be shown" in shown.text
        assert "Uproot" not in shown.text
        posted = browser.post(f"{page.url}/respond", data={**fields, "action": "confirm"})
        assert posted.status_code == 503
        by_link = browser.get(hitl["review_url"])
        assert by_link.status_code == 503
        json = browser.post(hitl["review_url"].replace("?", "/respond?"), json={"action": "confirm"})
        assert (json.status_code, json.json()["error"]) == (503, "unavailable")
        pressed = server.press(hitl, "confirm")
        assert (pressed.status_code, pressed.json()["error"]) == (503, "unavailable")
        polled = agent.get(hitl["poll_url"])
        assert (polled.status_code, polled.json()["error"]) == (503, "unavailable")
        assert agent.get(hitl["events_url"]).status_code == 503
        metrics = agent.get("/metrics").text
    assert 'placet_events_total{event="review.altered"} 1.0' in metrics
    assert f"content_altered case_id={hitl['case_id']}" in caplog.text


def test_the_inbox_shows_the_other_cases(own_server: RunningServer) -> None:
    server = own_server
    with (
        server.client(server.api_key) as agent,
        person(server, server.create_key("ada", "inbox:all")) as ada,
    ):
        altered, fine = server.open(agent), server.open(agent, prompt="Feed the cat?")
        alter(server, altered["case_id"])
        assert ada.list_cases() == [fine["case_id"]]
        assert "Uproot" not in ada.get_list()
        assert ada.open(altered["case_id"]).status_code == 503
        assert ada.list_cases(show="decided") == []
