"""Spec 8.5 over HTTP: a case's events as they happen, and those that were missed."""

from datetime import timedelta

import pytest

from tests.server.running import events_of

FORM = {
    "form": {
        "steps": [
            {"title": "You", "fields": [{"key": "name", "label": "Name", "type": "text", "required": True}]},
            {"title": "Pets", "fields": [{"key": "pets", "label": "Pets", "type": "number"}]},
        ]
    }
}


def stream(client, hitl, **headers) -> list:
    """The whole stream of a case that has ended."""
    return events_of(client.get(hitl["events_url"], headers=headers).text)


def cancel(client, hitl) -> None:
    client.post(f"/v1/reviews/{hitl['case_id']}/cancel", json={"reason": "Rain."}).raise_for_status()


@pytest.mark.spec("8.5-offered", "8.5-polling-too")
def test_streams_are_offered_beside_polling(server, client):
    hitl = server.open(client)
    response = client.head(hitl["events_url"], headers={"Accept": "text/event-stream"})
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/event-stream")
    assert client.get(hitl["poll_url"]).json()["status"] == "pending"


@pytest.mark.spec("8.5-live")
def test_an_open_stream_hears_of_it_at_once(server, client):
    hitl = server.open(client)
    with client.stream("GET", hitl["events_url"]) as response:
        lines = response.iter_lines()
        assert next(lines).startswith("retry:")
        cancel(client, hitl)
        heard = "\n".join(lines)
    assert "event: review.cancelled" in heard


@pytest.mark.spec("8.5-opened", "8.5-in-progress", "8.5-completed", "10.3.4-progress-event")
def test_a_form_filled_in_is_told_from_first_look_to_result(server, client):
    hitl = server.open(client, type="input", context=FORM)
    case_id = hitl["case_id"]
    with server.page(hitl) as page:
        page.post("opened", {})
        second = page.post("respond", {"field.name": "Ada", "asked": "name", "action": "x-next"})
        second.post("respond", {"field.pets": "3", "asked": "pets", "action": "submit", "step": "1"})
    now = client.get(hitl["poll_url"]).json()["completed_at"]
    opened, working, completed = [(name, data) for _, name, data in stream(client, hitl)]
    assert opened == ("review.opened", {"case_id": case_id, "opened_at": now})
    assert working[0] == "review.in_progress"
    assert (working[1]["case_id"], working[1]["opened_at"]) == (case_id, now)
    assert working[1]["progress"]["current_step"] == 2
    assert completed[0] == "review.completed"
    assert (completed[1]["case_id"], completed[1]["completed_at"]) == (case_id, now)
    assert completed[1]["result"]["data"] == {"name": "Ada", "pets": 3}


@pytest.mark.spec("8.5-expired")
def test_expiry_is_told_with_the_default_action(server, client):
    hitl = server.open(client, timeout="1m", default_action="reject")
    server.advance(minutes=1)
    server.sweep()
    [(_, name, data)] = stream(client, hitl)
    assert name == "review.expired"
    expected = {"case_id": hitl["case_id"], "expired_at": hitl["expires_at"], "default_action": "reject"}
    assert data == expected


@pytest.mark.spec("8.5-cancelled")
def test_withdrawal_is_told_with_its_reason(server, client):
    hitl = server.open(client)
    cancel(client, hitl)
    [(_, name, data)] = stream(client, hitl)
    assert name == "review.cancelled"
    assert data["reason"] == "Rain."
    assert data.keys() == {"case_id", "cancelled_at", "reason"}


@pytest.mark.spec("8.5-reminder")
def test_a_reminder_is_told_while_the_person_has_not_begun(server, client):
    due = server.clock() + timedelta(minutes=5)
    hitl = server.open(client, reminder_at=due.isoformat())
    server.advance(minutes=5)
    server.sweep()
    cancel(client, hitl)
    name, data = stream(client, hitl)[0][1:]
    assert name == "review.reminder"
    assert data["reminder_at"] == due.isoformat().replace("+00:00", "Z")
    assert "expires in" in data["message"]
    assert data["case_id"] == hitl["case_id"]


@pytest.mark.spec("8.5-reminder")
def test_no_reminder_once_the_person_is_at_it(server, client):
    hitl = server.open(
        client, type="input", context=FORM, reminder_at=(server.clock() + timedelta(minutes=5)).isoformat()
    )
    with server.page(hitl) as page:
        page.post("respond", {"field.name": "Ada", "asked": "name", "action": "x-next"})
    server.advance(minutes=5)
    server.sweep()
    cancel(client, hitl)
    assert "review.reminder" not in [name for _, name, _ in stream(client, hitl)]


@pytest.mark.spec("8.5-id")
def test_every_event_has_an_id_and_ids_only_grow(server, client):
    hitl = server.open(client)
    with server.page(hitl) as page:
        page.post("opened", {})
    cancel(client, hitl)
    ids = [seq for seq, _, _ in stream(client, hitl)]
    assert len(ids) == 2
    assert ids == sorted(set(ids))


@pytest.mark.spec("8.5-replay")
def test_a_client_that_reconnects_gets_the_missed_events_and_no_others(server, client):
    hitl = server.open(client)
    with server.page(hitl) as page:
        page.post("opened", {})
    cancel(client, hitl)
    everything = stream(client, hitl)
    missed = stream(client, hitl, **{"Last-Event-ID": str(everything[0][0])})
    assert missed == everything[1:]
    assert stream(client, hitl, **{"Last-Event-ID": str(everything[-1][0])}) == []


@pytest.mark.spec("8.5-replay")
@pytest.mark.parametrize("unknown", ["evt_9", "-1", "99999999999999999999", "999", "", "²"])
def test_an_unknown_last_event_replays_everything(server, client, unknown):
    hitl = server.open(client)
    cancel(client, hitl)
    headers = {"Last-Event-ID": unknown.encode("utf-8")}
    assert len(events_of(client.get(hitl["events_url"], headers=headers).text)) == 1


@pytest.mark.spec("8.5-closes")
@pytest.mark.parametrize("ending", ["completed", "expired", "cancelled"])
def test_the_stream_ends_after_the_last_event(server, client, ending):
    hitl = server.open(client, timeout="1m", inline_actions=["confirm"])
    with client.stream("GET", hitl["events_url"]) as response:
        lines = response.iter_lines()
        next(lines)
        if ending == "completed":
            server.press(hitl, "confirm")
        elif ending == "cancelled":
            cancel(client, hitl)
        else:
            server.advance(minutes=1)
            server.sweep()
        heard = list(lines)  # ends only because the server closes it
    assert f"event: review.{ending}" in heard


@pytest.mark.spec("8.5-poll-is-truth")
def test_the_stream_and_the_poll_tell_the_same(server, client):
    hitl = server.open(client, inline_actions=["confirm"])
    server.press(hitl, "confirm", data={"note": "Yes."})
    poll = client.get(hitl["poll_url"]).json()
    _, _, data = stream(client, hitl)[-1]
    assert data["result"] == poll["result"]
    assert data["completed_at"] == poll["completed_at"]


@pytest.mark.spec("8.5-offered")
def test_streams_pass_proxies_unbuffered_and_are_stored_nowhere(server, client):
    hitl = server.open(client)
    cancel(client, hitl)
    headers = client.get(hitl["events_url"]).headers
    assert headers["cache-control"] == "no-store"
    assert headers["x-accel-buffering"] == "no"
