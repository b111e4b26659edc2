"""Run `placet gate run` as a process of its own, for a host that cannot run commands as hooks."""

import asyncio
import json
import os
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from pathlib import Path
from typing import Any

from placet.cli.gate_install import find_program
from placet.cli.gate_options import HOST_MARGIN_S
from placet.protocol.duration import parse_duration

END_WITHIN_S = 15.0
FAILED = "The gate failed, so this was not done."


class GateHook:
    """The hook of one coding agent."""

    def __init__(self, name: str, config: Path, wait: str) -> None:
        self._limit_s = parse_duration(wait, "--wait").total_seconds() + HOST_MARGIN_S
        self._start = (str(find_program()), "gate", "run", name)
        self._options = ("--wait", wait, "--config", str(config), "--host-process", str(os.getpid()))

    async def run(self, event: str, sent: bytes) -> dict[str, Any]:
        """Return the object that the hook printed; an empty one if it failed."""
        with suppress(ValueError, RecursionError):
            said = json.loads(await self.read_output(event, sent) or b"")
            if isinstance(said, dict):
                return said
        return {}

    async def read_output(self, event: str, sent: bytes) -> bytes | None:
        """Return what the hook printed; None if it failed. The hook ends with this task."""
        process = await asyncio.create_subprocess_exec(
            *self._start, "--event", event, *self._options, stdin=PIPE, stdout=PIPE, start_new_session=True
        )
        try:
            output, _ = await asyncio.wait_for(process.communicate(sent), self._limit_s)
        except (TimeoutError, OSError):
            return None
        finally:
            await asyncio.shield(_end_hook(process))
        return output if process.returncode == 0 else None


async def _end_hook(process: Process) -> None:
    """End a hook whose answer is not needed; it closes its question."""
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), END_WITHIN_S)
    except TimeoutError:
        process.kill()
        await process.wait()
