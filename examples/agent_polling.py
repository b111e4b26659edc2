"""An agent that meets a service which asks people first: it passes the link on and waits for the answer.

python -m examples.agent_polling 'http://127.0.0.1:8400/api/demo?type=confirmation'
"""

import sys
import time

import httpx


def call(url: str) -> httpx.Response:
    """Call a service; if it wants a person to decide first, wait until one has."""
    reply = httpx.post(url)
    if reply.status_code != 202:
        return reply
    hitl = reply.json()["hitl"]
    print(f"{hitl['prompt']}\n{hitl['review_url']}", flush=True)
    while True:
        time.sleep(int(reply.headers.get("Retry-After", 30)))
        reply = httpx.get(hitl["poll_url"])
        if reply.json()["status"] in ("completed", "expired", "cancelled"):
            return reply


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    outcome = call(sys.argv[1]).json()
    print(outcome["status"], outcome.get("result"))
    assert outcome["status"] == "completed", "nobody said yes"
