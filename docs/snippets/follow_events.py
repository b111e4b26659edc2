import json
import os
from collections.abc import Iterator

import httpx

KEY = os.environ["PLACET_KEY"]


def follow(events_url: str) -> Iterator[tuple[str, dict]]:
    """Every event of a case until it ends, across lost connections."""
    headers = {"Authorization": f"Bearer {KEY}"}
    while True:
        try:
            with httpx.stream("GET", events_url, headers=headers, timeout=60) as stream:
                stream.raise_for_status()
                name = ""
                for line in stream.iter_lines():
                    field, _, value = line.partition(": ")
                    if field == "id":
                        headers["Last-Event-ID"] = value
                    elif field == "event":
                        name = value
                    elif field == "data":
                        yield name, json.loads(value)
                        if name in ("review.completed", "review.expired", "review.cancelled"):
                            return
        except httpx.TransportError:
            continue  # come back; what was missed is sent again


# What follows is for the tests.
from placet import PlacetClient  # noqa: E402

with PlacetClient(os.environ["PLACET_SERVER"], KEY) as placet:
    hitl = placet.open("confirmation", "Restart the mail server?")["hitl"]
    httpx.post(hitl["review_url"].replace("?", "/respond?"), json={"action": "confirm"})
seen = list(follow(hitl["events_url"]))
assert [name for name, _ in seen] == ["review.completed"]
assert seen[0][1]["result"]["action"] == "confirm"
