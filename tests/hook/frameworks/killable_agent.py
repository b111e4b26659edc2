"""A framework with approval as one process that may be killed lives it."""

from abc import abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Literal

from placet.hook import InterruptionMetadata
from placet.testing.approvals import Harness, Scene
from tests.hook.killable_process import make_mortal

Stands = InterruptionMetadata | Literal["new", "cut off", "over"]
"""What waits for a person; or the thread is new, was left in the middle of something, or has ended."""


class KillableHarness(Harness):
    """Stands behind a framework's harness, whose savers are mortal too."""

    calls_apart: ClassVar[bool] = False
    """Whether each call waits and runs for itself, and one that needs nobody does not wait at all."""

    def __init__(self, folder: Path, scene: Scene, **named: Any) -> None:
        super().__init__(folder, scene, **named)
        self.tools = tuple(map(make_mortal, self.tools))

    @abstractmethod
    def read_state(self, thread_id: str) -> Stands:
        """Where the thread stands, as a process finds it that has just begun."""
