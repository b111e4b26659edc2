"""Earlier rounds on the page of a question: each with its answer and what changed since."""

from typing import Any

import httpx

from tests.server.running import RunningServer

LETTER = {"subject": "Late", "body": "It comes on Monday."}


def ask(server: RunningServer, client: httpx.Client, artifact: Any, previous: str | None = None) -> Any:
    chain = {"previous_case_id": previous} if previous else {}
    return server.open(client, type="approval", context={"artifact": artifact}, **chain)


def test_the_page_shows_what_changed_and_says_so_when_nothing_did(
    server: RunningServer, client: httpx.Client
) -> None:
    first = ask(server, client, LETTER)
    with server.page(first) as page:
        page.post("respond", {"action": "edit", "feedback": "Tuesday"})
    second = ask(server, client, {**LETTER, "body": "It comes on Tuesday."}, first["case_id"])
    with server.page(second) as page:
        assert "removed: </span>Monday</del>" in page.text
        assert "added: </span>Tuesday</ins>" in page.text
        page.post("respond", {"action": "edit", "feedback": "Do it"})
    third = ask(server, client, {**LETTER, "body": "It comes on Tuesday."}, second["case_id"])
    with server.page(third) as page:
        assert page.text.index("Nothing changed in what is shown.") < page.text.index("Monday</del>")


def test_a_long_chain_of_large_texts_is_compared_as_far_as_it_is_worth_it(
    server: RunningServer, client: httpx.Client
) -> None:
    text = "\n".join(f"Line {number} of a long letter." for number in range(5_000))
    hitl = ask(server, client, {"body": f"{text}\nVersion 0."})
    for number in range(1, 13):
        with server.page(hitl) as page:
            page.post("respond", {"action": "edit", "feedback": "Do it again"})
        hitl = ask(server, client, {"body": f"{text}\nVersion {number}."}, hitl["case_id"])
    with server.page(hitl) as page:
        assert page.text.count('<details class="aside round"') == 12
        assert page.text.count("too much to compare here") == 2
        assert "added: </span>12</ins>" in page.text


def test_what_a_person_changed_is_shown_against_what_they_were_shown(
    server: RunningServer, client: httpx.Client
) -> None:
    letter = ask(server, client, LETTER)
    with server.page(letter) as page:
        page.post("respond", {"action": "edit", "edit.subject": "Late", "edit.body": "It comes on Tuesday."})
    with server.page(letter) as page:
        assert "removed: </span>Monday</del>" in page.text
        assert "added: </span>Tuesday</ins>" in page.text
    context = {"error": "It failed.", "params": {"batch_size": 50, "pace": "slow"}}
    failed = server.open(client, type="escalation", context=context)
    with server.page(failed) as page:
        page.post("respond", {"action": "retry", "param.batch_size": "20", "param.pace": "slow"})
    with server.page(failed) as page:
        assert "50</del>" in page.text
        assert "20</ins>" in page.text
        assert "slow</del>" not in page.text
        assert "slow</ins>" not in page.text


def test_hints_that_an_artifact_is_shown_by_are_not_said_again(
    server: RunningServer, client: httpx.Client
) -> None:
    context = {"artifact": "# A title", "artifact_format": "markdown", "budget": 12}
    hitl = server.open(client, type="approval", context=context)
    with server.page(hitl) as page:
        assert "A title</h" in page.text
        assert "Also said" in page.text
        assert "Artifact format" not in page.text
    bare = server.open(client, type="approval", context={"artifact": "# A title", "format": "markdown"})
    with server.page(bare) as page:
        assert "Also said" not in page.text


def test_answers_stand_under_the_labels_that_the_form_gave_them(
    server: RunningServer, client: httpx.Client
) -> None:
    fields = [
        {"key": "size", "label": "T-Shirt SIZE (EU)", "type": "text"},
        {"key": "note", "label": "note", "type": "text"},
    ]
    hitl = server.open(client, type="input", context={"form": {"fields": fields}})
    answers = {"action": "submit", "data": {"size": "40", "note": "none"}}
    assert client.post(hitl["review_url"].replace("?", "/respond?"), json=answers).status_code == 200
    with server.page(hitl) as page:
        assert "<bdi>T-Shirt SIZE (EU)</bdi>" in page.text
        assert "<bdi>note</bdi>" in page.text
