"""Two rounds: the person asks for changes, the service asks again, and both cases stand in one chain.

python -m examples.multi_round
"""

import httpx

from examples.stage import answer, run_placet_server
from placet import PlacetClient

DRAFT = {"headline": "We are open", "body": "Come in on Sunday."}


def main() -> None:
    with run_placet_server() as (url, key), PlacetClient(url, key) as placet:
        first = placet.open("approval", "May this notice go up?", context={"artifact": DRAFT})["hitl"]
        answer(first["review_url"], "edit", {"edit.body": "Come in on Saturday."})

        asked_for = placet.status(first["case_id"])["result"]
        assert asked_for["action"] == "edit"
        revised = {**DRAFT, **asked_for["data"]["edits"]}

        second = placet.open(
            "approval",
            "May this notice go up as you changed it?",
            context={"artifact": revised},
            previous_case_id=first["case_id"],
        )["hitl"]
        answer(second["review_url"], "approve")

        assert placet.status(second["case_id"])["result"]["action"] == "approve"
        assert placet.status(first["case_id"])["next_case_id"] == second["case_id"]
        chain = httpx.get(
            f"{url}/v1/reviews",
            params={"chain": first["case_id"]},
            headers={"Authorization": f"Bearer {key}"},
        ).json()["cases"]
        assert [one["poll"]["case_id"] for one in chain] == [first["case_id"], second["case_id"]]
    print("approved in the second round:", revised["body"])


if __name__ == "__main__":
    main()
