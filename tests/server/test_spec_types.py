"""Spec 10 over HTTP: what each type of review offers, asks and gives back."""

import pytest

from tests.server.running import EXAMPLE

OPTIONS = {"options": [{"id": "oak", "title": "Oak"}, {"id": "elm", "title": "Elm"}]}


def field(**changes) -> dict:
    return {"key": "name", "label": "Name", "type": "text", **changes}


def form(*fields: dict) -> dict:
    return {"form": {"fields": list(fields)}}


def answer(server, hitl, action, data=None):
    """Answer as a service's own page does."""
    with server.client() as page:
        address = hitl["review_url"].replace("?", "/respond?")
        return page.post(address, json={"action": action, "data": data or {}})


@pytest.mark.spec("10-actions", "10.1-result", "10.2-result", "10.3-result", "10.4-result", "10.5-result")
@pytest.mark.parametrize(
    ("type", "context", "action", "data"),
    [
        ("approval", {}, "approve", {"feedback": "Good."}),
        ("approval", {}, "reject", {"feedback": "No."}),
        ("approval", {"artifact": {"text": "Helo"}}, "edit", {"edits": {"text": "Hello"}}),
        ("selection", OPTIONS, "select", {"selected": ["oak"], "note": "Sturdy."}),
        ("input", form(field()), "submit", {"name": "Ada"}),
        ("confirmation", {"items": ["post"]}, "confirm", {"confirmed_items": ["post"], "note": "Go."}),
        ("confirmation", {}, "cancel", {"note": "Stop."}),
        (
            "escalation",
            {"params": {"tries": 3}},
            "retry",
            {"reason": "Net.", "modified_params": {"tries": 5}},
        ),
        ("escalation", {}, "skip", {"reason": "Late."}),
        ("escalation", {}, "abort", {"reason": "Enough."}),
    ],
)
def test_each_type_gives_back_its_own_result(server, client, type, context, action, data):
    hitl = server.open(client, type=type, context=context)
    assert answer(server, hitl, action, data).status_code == 200
    result = client.get(hitl["poll_url"]).json()["result"]
    assert (result["action"], result["data"]) == (action, data)


@pytest.mark.spec("10-actions", "10.4-one-shot")
@pytest.mark.parametrize(
    ("type", "context", "action"),
    [
        ("approval", {}, "confirm"),
        ("selection", OPTIONS, "approve"),
        ("input", form(field()), "approve"),
        ("confirmation", {}, "edit"),
        ("escalation", {}, "approve"),
    ],
)
def test_no_type_takes_the_action_of_another(server, client, type, context, action):
    hitl = server.open(client, type=type, context=context)
    response = answer(server, hitl, action)
    assert (response.status_code, response.json()["error"]) == (400, "invalid_action")
    assert client.get(hitl["poll_url"]).json()["status"] == "pending"


@pytest.mark.spec("10.1-rounds", "0.9-corrections")
def test_an_edit_completes_its_round_and_the_next_one_continues_it(server, client):
    first = server.open(client, type="approval", context={"artifact": {"text": "Helo"}})
    answer(server, first, "edit", {"feedback": "A letter is missing."})
    second = server.open(
        client,
        type="approval",
        context={"artifact": {"text": "Hello"}},
        previous_case_id=first["case_id"],
    )
    with server.page(second) as page:
        assert "A letter is missing." in page.text
    answer(server, second, "approve")
    before, after = (client.get(one["poll_url"]).json() for one in (first, second))
    assert (before["result"]["action"], before["next_case_id"]) == ("edit", second["case_id"])
    assert after["result"]["action"] == "approve"


@pytest.mark.spec("10-custom", "10-custom-namespaced")
def test_a_custom_type_declares_its_actions_and_takes_no_other(server, client):
    assert client.post("/v1/cases", json={"type": "x-seating", "prompt": "Where?"}).status_code == 400
    hitl = server.open(client, type="x-seating", prompt="Where?", actions=["left", "right"])
    assert answer(server, hitl, "middle").status_code == 400
    assert answer(server, hitl, "left", {"note": "Near the door."}).status_code == 200
    assert client.get(hitl["poll_url"]).json()["result"]["action"] == "left"


@pytest.mark.spec("10.3.1-declared", "10.3.1-placeholder", "10.3.1-hint")
def test_a_form_is_declared_in_the_context_and_drawn_from_it(server, client):
    declared = form(field(label="Your full name", hint="As in your passport", placeholder="Ada Lovelace"))
    hitl = server.open(client, type="input", context=declared)
    assert hitl["context"] == declared
    with server.page(hitl) as page:
        for words in ("Your full name", "As in your passport", "Ada Lovelace"):
            assert words in page.text


@pytest.mark.spec("10.3.1-custom-type", "10.3.1-fallback")
def test_a_field_of_an_unknown_type_is_a_line_of_text(server, client):
    hitl = server.open(client, type="input", context=form(field(type="x-colour-picker")))
    with server.page(hitl) as page:
        assert 'type="text"' in page.text
    assert answer(server, hitl, "submit", {"name": "teal"}).status_code == 200


@pytest.mark.spec("10.3.1-key", "10.3.1-label", "10.3.1-type")
@pytest.mark.parametrize("missing", ["key", "label", "type"])
def test_a_field_without_key_label_or_type_is_no_field(client, missing):
    broken = {name: value for name, value in field().items() if name != missing}
    response = client.post("/v1/cases", json={**EXAMPLE, "type": "input", "context": form(broken)})
    assert (response.status_code, response.json()["error"]) == (400, "invalid_form")


@pytest.mark.spec("10.3.1-required")
def test_a_required_field_must_be_filled_in_and_others_need_not(server, client):
    hitl = server.open(client, type="input", context=form(field(required=True), field(key="pet")))
    refused = answer(server, hitl, "submit", {"pet": "cat"})
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_input")
    assert refused.json()["fields"].keys() == {"name"}
    assert answer(server, hitl, "submit", {"name": "Ada"}).status_code == 200


@pytest.mark.spec("10.3.1-default")
def test_a_default_stands_in_the_field_until_something_else_is_typed(server, client):
    hitl = server.open(client, type="input", context=form(field(default="Ada")))
    with server.page(hitl) as page:
        assert 'value="Ada"' in page.text


@pytest.mark.spec("10.3.1-sensitive", "10.3.4-progress")
def test_a_sensitive_field_is_masked_and_its_saved_value_never_comes_back(server, client):
    steps = [
        {"title": "One", "fields": [field(key="pin", label="PIN", sensitive=True, required=True)]},
        {"title": "Two", "fields": [field()]},
    ]
    hitl = server.open(client, type="input", context={"form": {"steps": steps}})
    with server.page(hitl) as page:
        assert 'type="password"' in page.text
        later = page.post("respond", {"field.pin": "4711-0815", "asked": "pin", "action": "x-next"})
        assert later.response.status_code == 200
        back = later.post("respond", {"step": "1", "action": "x-back"})
        assert "4711-0815" not in later.text + back.text
    poll = client.get(hitl["poll_url"])
    assert poll.json()["status"] == "in_progress"
    assert "4711-0815" not in poll.text


@pytest.mark.spec("10.3.1-options", "10.3.1-validation")
@pytest.mark.parametrize(
    ("rules", "wrong"),
    [
        ({"type": "select", "options": [{"value": "a", "label": "A"}]}, "b"),
        ({"type": "multiselect", "options": [{"value": "a", "label": "A"}]}, ["a", "b"]),
        ({"validation": {"minLength": 3}}, "ab"),
        ({"validation": {"maxLength": 3}}, "abcd"),
        ({"validation": {"pattern": "[A-Z]+"}}, "abc"),
        ({"type": "number", "validation": {"min": 1}}, 0),
        ({"type": "range", "validation": {"min": 0, "max": 5}}, 6),
        ({"type": "date", "validation": {"min": "2026-05-01"}}, "2026-04-30"),
        ({"type": "email"}, "nobody"),
        ({"type": "url"}, "nowhere"),
        ({"type": "boolean"}, "yes"),
        ({"type": "number"}, "1"),
        ({"type": "date"}, "tomorrow"),
    ],
    ids=str,
)
def test_an_answer_outside_its_rules_is_refused_by_the_server(server, client, rules, wrong):
    hitl = server.open(client, type="input", context=form(field(**rules)))
    response = answer(server, hitl, "submit", {"name": wrong})
    assert (response.status_code, response.json()["error"]) == (400, "invalid_input")
    assert client.get(hitl["poll_url"]).json()["status"] == "pending"


@pytest.mark.spec("10.3.2-steps", "10.3.2-description", "10.3.2-session", "10.3.2-service-owned")
def test_a_form_in_steps_is_filled_in_piece_by_piece_and_can_be_taken_up_again(server, client):
    steps = [
        {"title": "You", "description": "Who are you?", "fields": [field(required=True)]},
        {"title": "Pet", "fields": [field(key="pet", label="Pet")]},
        {"title": "All of it", "fields": []},
    ]
    declared = {"form": {"steps": steps, "session_id": "sess_1"}}
    hitl = server.open(client, type="input", context=declared)
    assert hitl["context"]["form"]["session_id"] == "sess_1"
    with server.page(hitl) as page:
        assert "Who are you?" in page.text
        page.post("respond", {"field.name": "Ada", "asked": "name", "action": "x-next", "step": "0"})
    with server.page(hitl) as another_day:
        assert "Pet" in another_day.text
        last = another_day.post(
            "respond", {"field.pet": "cat", "asked": "pet", "action": "x-next", "step": "1"}
        )
        last.post("respond", {"action": "submit", "step": "2"})
    assert client.get(hitl["poll_url"]).json()["result"]["data"] == {"name": "Ada", "pet": "cat"}


@pytest.mark.spec("10.3.2-title", "10.3.2-fields", "10.3.2-either")
@pytest.mark.parametrize(
    "declared",
    [
        {"steps": [{"fields": []}]},
        {"steps": [{"title": "You"}]},
        {"steps": [{"title": "You", "fields": []}], "fields": [field()]},
        {"steps": []},
        {},
    ],
    ids=str,
)
def test_a_form_that_is_neither_fields_nor_steps_is_refused(client, declared):
    draft = {"type": "input", "prompt": "Who?", "context": {"form": declared}}
    response = client.post("/v1/cases", json=draft)
    assert (response.status_code, response.json()["error"]) == (400, "invalid_form")


@pytest.mark.spec("10.3.3-conditional", "10.3.3-hidden", "10.3.3-earlier")
def test_a_field_whose_condition_is_not_met_is_dropped_from_the_answer(server, client):
    condition = {"field": "name", "operator": "eq", "value": "Ada"}
    declared = form(field(), field(key="engine", label="Engine", required=True, conditional=condition))
    hidden = server.open(client, type="input", context=declared)
    assert answer(server, hidden, "submit", {"name": "Bea", "engine": "steam"}).status_code == 200
    assert client.get(hidden["poll_url"]).json()["result"]["data"] == {"name": "Bea"}
    shown = server.open(client, type="input", context=declared)
    assert answer(server, shown, "submit", {"name": "Ada"}).status_code == 400


@pytest.mark.spec("10.3.3-earlier")
def test_a_condition_on_a_later_field_is_refused(client):
    condition = {"field": "later", "operator": "eq", "value": "x"}
    declared = form(field(conditional=condition), field(key="later"))
    draft = {"type": "input", "prompt": "Who?", "context": declared}
    assert client.post("/v1/cases", json=draft).json()["error"] == "invalid_form"


@pytest.mark.spec("10.3.4-progress-optional", "8-in-progress")
def test_work_on_a_case_without_steps_has_no_progress_to_report(server, client):
    hitl = server.open(client)
    server.run(
        server.parts.desk.save_progress(hitl["case_id"], actor="link:test", values={}, step=0, progress=None)
    )
    poll = client.get(hitl["poll_url"]).json()
    assert poll["status"] == "in_progress"
    assert "progress" not in poll
