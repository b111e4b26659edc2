"""A process that audits messages and holds some of them until it is killed, saying what it has done."""

import asyncio
import os
import sys
import time

from placet.desk import clock
from placet.ports.hold_store import HoldRow
from placet.relay.audit.audit_log import AuditLog
from placet.stores.sqlite import SqliteStore
from placet.testing.relay_samples import create_held_case
from tests.relay.audit.samples import build_subscription

BETWEEN_HOLDS = 20


def print_line(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def build_hold(number: int) -> HoldRow:
    return HoldRow(
        id=f"hold-{number}",
        tenant="default",
        case_id=f"case-{number}",
        status="PENDING",
        rev=1,
        detection_source="POLICY_ESCALATION",
        source="trip-planner",
        sink="weather",
        task_id=f"t-{number}",
        policy_name="No SSNs",
        correlation_id=f"held-{number}",
        created_at=clock.now(),
        body=b"{}",
        envelope=b"{}",
    )


async def main(path: str) -> None:
    store = await SqliteStore.open(path)
    trail = AuditLog(store, now=clock.now)
    for number in range(10**9):
        trail.record(
            trail.build_event("COMMUNICATION_AUDIT", build_subscription(), correlation_id=str(number))
        )
        print_line("noted", number, time.monotonic())
        if number % BETWEEN_HOLDS == 0:
            events = [
                trail.build_event(kind, build_subscription(), correlation_id=f"held-{number}")
                for kind in ("HITL", "HITL_GUARD")
            ]
            await create_held_case(store, build_hold(number), events=events)
            print_line("held", number, time.monotonic())


asyncio.run(main(sys.argv[1]))
