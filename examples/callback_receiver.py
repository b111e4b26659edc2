"""A receiver of callbacks that believes nothing unsigned and counts nothing twice.

python -m examples.callback_receiver
"""

import json
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import httpx

from examples.stage import answer, run_placet_server, wait_until
from placet import PlacetClient, verify_callback
from placet.errors import SignatureInvalid

SECRETS: list[str] = []
SEEN: dict[str, dict[str, Any]] = {}


class Receiver(BaseHTTPRequestHandler):
    """Answers 204 to what is genuine, new or not, and 401 to the rest."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            message_id = verify_callback(
                body, dict(self.headers), secrets=SECRETS, now=datetime.now(UTC), accept_untimed=False
            )
        except SignatureInvalid:
            self.send_response(401)
        else:
            SEEN.setdefault(str(message_id), json.loads(body))
            self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *values: object) -> None:
        """Quiet."""


def main() -> None:
    receiver = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    Thread(target=receiver.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{receiver.server_port}/outcomes"
    with run_placet_server() as (url, key), PlacetClient(url, key) as placet:
        owner = {"Authorization": f"Bearer {key}"}
        registered = httpx.post(f"{url}/v1/callbacks", json={"url": address}, headers=owner)
        SECRETS.extend(registered.json()["secrets"])

        assert httpx.post(address, json={"event": "review.completed"}).status_code == 401

        hitl = placet.open("confirmation", "Restart the mail server?", callback_url=address)["hitl"]
        answer(hitl["review_url"], "confirm")
        wait_until(lambda: bool(SEEN))

        log = f"{url}/v1/deliveries?state=delivered&case_id={hitl['case_id']}"
        wait_until(lambda: bool(httpx.get(log, headers=owner).json()["deliveries"]))
        delivery = httpx.get(log, headers=owner).json()["deliveries"][0]
        again = httpx.post(f"{url}/v1/deliveries/{delivery['id']}/replay", headers=owner)
        assert again.status_code == 202
        wait_until(lambda: bool(httpx.get(log, headers=owner).json()["deliveries"]))
        outcome = SEEN.pop(delivery["id"])
        assert (outcome["event"], outcome["result"]["action"]) == ("review.completed", "confirm")
        assert not SEEN, "the repeated delivery has the same id"
    receiver.shutdown()
    print("received and verified:", outcome["event"])


if __name__ == "__main__":
    main()
