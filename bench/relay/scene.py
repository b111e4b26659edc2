"""Who calls whom in the bench, and what they say: a question, an answer of 0.8 KB, a stream."""

from pathlib import Path
from typing import Any

import msgspec

from bench.relay.patterns import policies
from bench.rows import RELAY_HELD
from placet.relay.settings import AgentSettings, CallerSettings, RelaySettings

JUDGED, FRESH, PACED, PLAIN = "judged", "fresh", "paced", "plain"
"""Names of one agent. Policies look at what passes to and from the first three, and nobody at the last; the
second answers each message with a task of its own, the third writes a word every `PACE_S`."""
CALLERS = {JUDGED: "bench", FRESH: "bench", PACED: "bench", PLAIN: "bench-plain"}
FRESH_PATH, PACED_PATH = "/fresh", "/paced"
PACE_S = 0.05
PACED_EVENTS = 12
PLAIN_TENANT = "plain"
EVENTS = 500
"""So many events has a stream."""

ASKED = (
    "Our customer has ordered the bookshelf Alder, 80 x 200 cm, on 3 November under number 20261103-417. "
    "When will it arrive, and can it still go to another address? Please answer in two sentences that we "
    "can send on."
)
ANSWERED = (
    "The bookshelf left the warehouse in Venlo on 12 November at 14:05 and is expected between 16 and 18 "
    "November; the carrier's number is 00340434161094000417. The address can be changed until the evening "
    "before delivery, for which the customer needs the order number and the postcode, and nothing has to be "
    "paid for it. Anybody not at home will find a card with the next day and a number to call."
)
SECRET = "The customer says that 536-22-8764 is the number they gave us when they called about the order."


def call(
    method: str, text: str, *, message_id: str = "6f1d0c8a-6f6f-4a53-9a53-1d4f6d1b9c11"
) -> dict[str, Any]:
    """A call by JSON-RPC, A2A 1.0."""
    message = {"messageId": message_id, "role": "ROLE_USER", "parts": [{"text": text}]}
    return {
        "jsonrpc": "2.0",
        "id": 1,
        "method": method,
        "params": {"message": message, "configuration": {"acceptedOutputModes": ["text/plain"]}},
    }


SEND = msgspec.json.encode(call("SendMessage", ASKED))
STREAM = msgspec.json.encode(call("SendStreamingMessage", ASKED))
NUMBER = "@number@"
HELD = msgspec.json.encode(call("SendMessage", SECRET, message_id=NUMBER))
"""A policy holds this; the number makes each a message of its own."""

TASK_ID = "0b9a4f3e-9d1c-4a7e-8f0e-5b7f3b1c2d4e"
CONTEXT_ID = "7c2f8f64-3f6e-4c9b-9b64-2f1d0a5e7c31"


def reply(task_id: str = TASK_ID) -> bytes:
    """The agent's answer: a task that is done."""
    part = {"text": ANSWERED, "mediaType": "text/plain"}
    task = {
        "id": task_id,
        "contextId": CONTEXT_ID,
        "status": {"state": "TASK_STATE_COMPLETED", "timestamp": "2026-11-15T12:00:00.000Z"},
        "artifacts": [{"artifactId": "answer", "name": "Answer for the customer", "parts": [part]}],
        "metadata": {"model": "bench", "tokens": 118},
    }
    return msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "result": {"task": task}})


def events(count: int = EVENTS) -> list[bytes]:
    """A stream: the task, its answer piece by piece, and that it is done."""
    about = {"taskId": TASK_ID, "contextId": CONTEXT_ID}
    working = {"id": TASK_ID, "contextId": CONTEXT_ID, "status": {"state": "TASK_STATE_WORKING"}}
    words = ANSWERED.split()
    pieces = [
        {
            "artifactUpdate": {
                **about,
                "artifact": {"artifactId": "answer", "parts": [{"text": f"{words[number % len(words)]} "}]},
                "append": number > 0,
            }
        }
        for number in range(count - 2)
    ]
    done = {"statusUpdate": {**about, "status": {"state": "TASK_STATE_COMPLETED"}}}
    results = [{"task": working}, *pieces, done]
    return [
        b"data: " + msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "result": one}) + b"\n\n"
        for one in results
    ]


def card(url: str) -> bytes:
    """What the agent says of itself."""
    return msgspec.json.encode(
        {
            "name": "Bench",
            "description": "Answers every question alike.",
            "version": "1.0.0",
            "supportedInterfaces": [{"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
            "capabilities": {"streaming": True},
            "defaultInputModes": ["text/plain"],
            "defaultOutputModes": ["text/plain"],
            "skills": [],
        }
    )


def relay_settings(folder: Path, agent_url: str) -> RelaySettings:
    """The relay between the bench and its agent, with two hundred policies in a file."""
    file = folder / "policies.json"
    file.write_bytes(msgspec.json.encode({"policies": policies()}))
    return RelaySettings(
        agents={
            JUDGED: AgentSettings(url=agent_url),
            FRESH: AgentSettings(url=agent_url + FRESH_PATH),
            PACED: AgentSettings(url=agent_url + PACED_PATH),
            PLAIN: AgentSettings(url=agent_url, tenant=PLAIN_TENANT),
        },
        callers={
            CALLERS[JUDGED]: CallerSettings(agents=(JUDGED, FRESH, PACED)),
            CALLERS[PLAIN]: CallerSettings(agents=(PLAIN,), tenant=PLAIN_TENANT),
        },
        policies=str(file),
        max_pending_holds=10 * RELAY_HELD,
    )
