"""A Flask app with Placet beside it: it opens a case, hands the 202 on, and acts on the answer.

python -m examples.flask_app
"""

from typing import Any

import httpx
from flask import Flask, current_app, request

from examples.stage import answer, run_placet_server
from placet import PlacetClient, ServerRefused

app = Flask(__name__)


def placet() -> PlacetClient:
    """One client for the whole app; it keeps its connections."""
    client: PlacetClient = current_app.extensions["placet"]
    return client


@app.errorhandler(ServerRefused)
def refused(error: ServerRefused) -> Any:
    return error.body(), error.status


@app.post("/backups/deletion")
def delete_backups() -> Any:
    names = request.get_json()["names"]
    return placet().open(
        "confirmation",
        f"Delete {len(names)} backups?",
        context={"items": [{"id": name, "title": name} for name in names], "irreversible": True},
        default_action="abort",
        agent_request=request,
    ), 202


@app.get("/backups/deletion/<case_id>")
def deletion(case_id: str) -> Any:
    poll = placet().status(case_id)
    confirmed = poll["status"] == "completed" and poll["result"]["action"] == "confirm"
    return {"deleted": poll["result"]["data"]["confirmed_items"] if confirmed else []}


def main() -> None:
    with run_placet_server() as (url, key), PlacetClient(url, key) as client:
        app.extensions["placet"] = client
        agent = app.test_client()
        credential = {"Authorization": "Bearer key-of-the-agent"}
        asked = agent.post("/backups/deletion", json={"names": ["2019", "2020"]}, headers=credential)
        assert asked.status_code == 202
        hitl = asked.get_json()["hitl"]
        poll = httpx.get(hitl["poll_url"], headers=credential).json()
        assert poll["status"] == "pending"
        assert agent.get(f"/backups/deletion/{hitl['case_id']}").get_json() == {"deleted": []}

        answer(hitl["review_url"], "confirm", {"confirmed_items": ["2019", "2020"]})

        assert agent.get(f"/backups/deletion/{hitl['case_id']}").get_json() == {"deleted": ["2019", "2020"]}
        assert agent.get("/backups/deletion/review_unknown").status_code == 404
    print("confirmed and deleted")


if __name__ == "__main__":
    main()
