"""An agent that signs its requests, at a service that passes its public key on to Placet."""

import os

import httpx
from joserfc.jwk import OKPKey

from placet import PlacetClient
from placet.agent import Agent, RequestSigner

PLACET = os.environ["PLACET_SERVER"]

key = OKPKey.generate_key("Ed25519").as_dict(private=True)  # keep it: it is who your agent is
signer = RequestSigner(key)
with httpx.Client(auth=signer) as http:
    agent = Agent(tell=print, http=http, trusted=[PLACET])

    with PlacetClient(PLACET, os.environ["PLACET_KEY"]) as service:
        asked = service.open("confirmation", "Delete the backup?", agent_key=signer.public_key)
    assert http.get(asked["hitl"]["poll_url"]).json()["status"] == "pending"
    assert httpx.get(asked["hitl"]["poll_url"]).status_code == 401
