"""A process that relays calls until it is killed: each answer is about a new task."""

import asyncio
import json
import os
import sys
import threading
import uuid
from pathlib import Path

from tests.relay.a2a.raw_agent import RawAgent, answer_with
from tests.relay.audit.audited_relay import AuditedRelay, run_audited_relay

CALLERS = 8


async def answer_with_new_task(
    agent: RawAgent, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    task = {"id": str(uuid.uuid4()), "contextId": "c-1", "status": {"state": "TASK_STATE_WORKING"}}
    body = {"jsonrpc": "2.0", "id": 1, "result": {"task": task}}
    await answer_with(200, json.dumps(body).encode())(agent, reader, writer)


def call_forever(relay: AuditedRelay) -> None:
    while True:
        _, answer = relay.say("hello")
        os.write(1, (answer["result"]["task"]["id"] + "\n").encode())


def main(folder: str) -> None:
    with run_audited_relay(Path(folder)) as relay:
        relay.agent.behave = answer_with_new_task
        callers = [threading.Thread(target=call_forever, args=(relay,)) for _ in range(CALLERS)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()


main(sys.argv[1])
