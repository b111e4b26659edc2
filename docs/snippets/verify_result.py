import os

import httpx

from placet import PlacetClient, verify_result
from placet.errors import SignatureInvalid

URL = os.environ["PLACET_SERVER"]
KEY = os.environ["PLACET_KEY"]


def proven(poll: dict) -> bool:
    keys = httpx.get(f"{URL}/.well-known/jwks.json").json()  # fetch once, from a server you trust
    try:
        verified = verify_result(poll, keys)
    except SignatureInvalid as error:
        print("not proven:", error)
        return False
    print(verified.action, "on", verified.case_id, "at", verified.signed_at)
    return True


# What follows is for the tests.
with PlacetClient(URL, KEY) as placet:
    hitl = placet.open("confirmation", "Restart the mail server?")["hitl"]
    httpx.post(hitl["review_url"].replace("?", "/respond?"), json={"action": "confirm"})
    poll = placet.status(hitl["case_id"])
assert proven(poll)
assert not proven({**poll, "result": {**poll["result"], "action": "cancel"}})
