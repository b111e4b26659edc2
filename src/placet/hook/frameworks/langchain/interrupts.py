"""Asking a person through LangGraph's interrupts, so that it keeps only answers that were taken."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

from langgraph.config import get_config
from langgraph.errors import GraphInterrupt, is_invalid_resume
from langgraph.types import Interrupt, interrupt
from pydantic import RootModel, ValidationError, model_validator

from placet.errors import InvalidFeedback
from placet.hook.frameworks.langchain.conversion import encode_interruption
from placet.hook.interruption import InterruptionMetadata

StoreAnswer = Callable[[Any], InterruptionMetadata]
"""Keeps an answer and returns what was asked, as it is decided then; raises InvalidFeedback."""
SCRATCHPAD = "__pregel_scratchpad"
_STORE_ANSWER: ContextVar[StoreAnswer] = ContextVar("take")


class _StillUndecided(Exception):
    """An answer was taken and calls still wait."""

    def __init__(self, standing: InterruptionMetadata) -> None:
        self.standing = standing


class ResumeAnswer(RootModel[Any]):
    """What a client may answer; to read it is to take it, so that LangGraph keeps only what was taken."""

    @model_validator(mode="after")
    def _take(self) -> "ResumeAnswer":
        try:
            self.root = _STORE_ANSWER.get()(self.root)
        except InvalidFeedback as error:
            raise ValueError(error.message) from error
        if self.root.undecided:
            raise _StillUndecided(self.root)
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: Any) -> dict[str, Any]:
        decisions = {"type": "object", "additionalProperties": True}
        return {"type": "object", "properties": {"decisions": decisions}, "required": ["decisions"]}


def take_answer(take: StoreAnswer) -> InterruptionMetadata | None:
    """The calls with their decisions, if the graph goes on with an answer; None if it has none.

    An answer that leaves calls undecided interrupts the graph again.
    """
    taking = _STORE_ANSWER.set(take)
    try:
        # A type makes LangGraph check an answer before it keeps it; a wrong one could never be undone.
        taken: InterruptionMetadata = interrupt(None, response_schema=ResumeAnswer).root
    except _StillUndecided as still:
        raise build_interrupt(still.standing) from None
    except GraphInterrupt:
        return None
    finally:
        _STORE_ANSWER.reset(taking)
    return taken


@contextmanager
def translate_invalid_resume() -> Iterator[None]:
    """What was wrong with an answer is raised as InvalidFeedback; another error as it is."""
    try:
        yield
    except ValidationError as error:
        if not is_invalid_resume(error):
            raise
        said = error.errors()[0].get("ctx", {}).get("error")
        cause = said.__cause__ if isinstance(said, ValueError) else None
        raise (cause if isinstance(cause, InvalidFeedback) else InvalidFeedback(str(error))) from None


def may_have_answer() -> bool:
    """Whether LangGraph has an answer for the task that runs; if it cannot be told, it may have one."""
    try:
        scratchpad = get_config()["configurable"][SCRATCHPAD]
        return bool(scratchpad.resume) or scratchpad.get_null_resume() is not None
    except (KeyError, AttributeError, TypeError):
        return True


def build_interrupt(standing: InterruptionMetadata) -> GraphInterrupt:
    """As `interrupt` raises it, which makes the schema of an answer anew each time."""
    where = get_config()["configurable"]
    shown, place = encode_interruption(standing, where), where["checkpoint_ns"]
    asked: Interrupt[Any] = Interrupt.from_ns(shown, place, response_schema=_answer_schema())
    return GraphInterrupt((asked,))


@cache
def _answer_schema() -> dict[str, Any]:
    return ResumeAnswer.model_json_schema()
