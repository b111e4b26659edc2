"""Interrupting a LangGraph graph, so that LangGraph stores only answers that were accepted."""

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
from placet.hook.frameworks.langchain.answers import show_interruption
from placet.hook.interruption import InterruptionMetadata

StoreAnswer = Callable[[Any], InterruptionMetadata]
"""Stores an answer and returns the interruption with its decisions; raises InvalidFeedback."""
SCRATCHPAD = "__pregel_scratchpad"
_STORE_ANSWER: ContextVar[StoreAnswer] = ContextVar("take")


class _StillUndecided(Exception):
    """An answer was stored and some calls are still undecided."""

    def __init__(self, interruption: InterruptionMetadata) -> None:
        self.interruption = interruption


class ResumeAnswer(RootModel[Any]):
    """An answer from a client; validating it stores it, so that LangGraph keeps only accepted answers."""

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
        forms = [{"type": "object"}, {"type": "array", "items": {"type": "object"}}]
        decisions = {"anyOf": forms, "description": "By call id, or in the order of the action requests."}
        return {"type": "object", "properties": {"decisions": decisions}, "required": ["decisions"]}


def take_answer(take: StoreAnswer) -> InterruptionMetadata | None:
    """Return the calls with their decisions, all or some, if the graph resumes with an answer; else None."""
    taking = _STORE_ANSWER.set(take)
    try:
        # With a schema, LangGraph validates an answer before storing it; it could not be removed later.
        taken: InterruptionMetadata = interrupt(None, response_schema=ResumeAnswer).root
    except _StillUndecided as still:
        return still.interruption
    except GraphInterrupt:
        return None
    finally:
        _STORE_ANSWER.reset(taking)
    return taken


@contextmanager
def translate_invalid_resume() -> Iterator[None]:
    """Raise an invalid answer as InvalidFeedback; other errors pass unchanged."""
    try:
        yield
    except ValidationError as error:
        if not is_invalid_resume(error):
            raise
        said = error.errors()[0].get("ctx", {}).get("error")
        cause = said.__cause__ if isinstance(said, ValueError) else None
        raise (cause if isinstance(cause, InvalidFeedback) else InvalidFeedback(str(error))) from None


def may_have_answer() -> bool:
    """Return whether LangGraph has an answer for the running task; True if that is unknown."""
    try:
        scratchpad = get_config()["configurable"][SCRATCHPAD]
        return bool(scratchpad.resume) or scratchpad.get_null_resume() is not None
    except (KeyError, AttributeError, TypeError):
        return True


def build_interrupt(interruption: InterruptionMetadata, *, is_single: bool = False) -> GraphInterrupt:
    """Return what `interrupt` raises, without building the schema of the answer each time."""
    where = get_config()["configurable"]
    shown = show_interruption(interruption, where, is_single=is_single)
    asked: Interrupt[Any] = Interrupt.from_ns(shown, where["checkpoint_ns"], response_schema=_answer_schema())
    return GraphInterrupt((asked,))


@cache
def _answer_schema() -> dict[str, Any]:
    return ResumeAnswer.model_json_schema()
