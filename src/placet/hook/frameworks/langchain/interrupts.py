"""Interrupting a LangGraph graph, so that LangGraph stores only answers that were accepted."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
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
    """Return what `interrupt` raises, without a schema: answers have several forms."""
    where = get_config()["configurable"]
    shown = show_interruption(interruption, where, is_single=is_single)
    asked: Interrupt[Any] = Interrupt.from_ns(shown, where["checkpoint_ns"])
    return GraphInterrupt((asked,))
