"""Run Presidio in a child process: read texts from stdin, write found entities to stdout."""

import os
import sys
from contextlib import suppress
from typing import Any, BinaryIO

from placet.relay.detectors.presidio_frames import (
    READY_MARK,
    AnalysisRequest,
    AnalysisResult,
    FoundEntity,
    encode_frame,
    read_request,
)

LANGUAGE = "en"


def main() -> None:
    """Load Presidio once, and then serve until standard input ends.

    On Linux a forked worker does the work. If it is killed because it takes too long, the next one starts in
    milliseconds, without loading Presidio again.
    """
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of a library must not get between the frames
    try:
        engine: Any = build_analyzer(sys.argv[1] if len(sys.argv) > 1 else None)
    except Exception as error:
        _write_result(
            output,
            AnalysisResult(error=f"Presidio did not start: {type(error).__name__}: {error}"),
            READY_MARK,
        )
        return
    if not sys.platform.startswith("linux"):
        _serve(engine, output)
        return
    was_killed = True
    while was_killed:
        worker_pid = os.fork()
        if worker_pid == 0:
            with suppress(BrokenPipeError):  # the relay has ended
                _serve(engine, output)
            os._exit(0)
        was_killed = os.waitstatus_to_exitcode(os.waitpid(worker_pid, 0)[1]) != 0


def _serve(engine: Any, output: BinaryIO) -> None:
    requests = os.fdopen(0, "rb", closefd=False)
    _discard_stale_input()
    _write_result(output, AnalysisResult(pid=os.getpid()), READY_MARK)
    while (request := read_request(requests)) is not None:
        _write_result(output, _analyze(engine, request))


def _discard_stale_input() -> None:
    """Discard the rest of a request that a killed worker did not read.

    The relay sends the next request only after the ready mark.
    """
    os.set_blocking(0, False)
    with suppress(BlockingIOError):
        while os.read(0, 1 << 16):
            pass
    os.set_blocking(0, True)


def _write_result(output: BinaryIO, result: AnalysisResult, prefix: bytes = b"") -> None:
    output.write(prefix + encode_frame(result))
    output.flush()


def build_analyzer(model: str | None) -> Any:
    """Return Presidio's analyzer with its default recognizers, on a spaCy model or a blank one."""
    import spacy

    language = spacy.load(model) if model else _build_blank_language(spacy)
    from presidio_analyzer import AnalyzerEngine
    from presidio_analyzer.nlp_engine import SpacyNlpEngine

    engine: Any = SpacyNlpEngine(models=[{"lang_code": LANGUAGE, "model_name": model or "blank"}])
    # Setting the model prevents Presidio from downloading one.
    engine.nlp = {LANGUAGE: language}
    return AnalyzerEngine(nlp_engine=engine, supported_languages=[LANGUAGE])


def _build_blank_language(spacy: Any) -> Any:
    """Return a blank model with lowercase words as lemmas, which Presidio compares with context words."""

    def lowercase_lemmas(document: Any) -> Any:
        for token in document:
            token.lemma_ = token.lower_
        return document

    spacy.Language.component("placet_lowercase_lemmas", func=lowercase_lemmas)
    language = spacy.blank(LANGUAGE)
    language.add_pipe("placet_lowercase_lemmas")
    return language


def _analyze(engine: Any, request: AnalysisRequest) -> AnalysisResult:
    entities: list[FoundEntity] = []
    try:
        for index, part in enumerate(request.parts):
            results = engine.analyze(
                part.text, language=LANGUAGE, entities=request.entities, context=part.context or None
            )
            entities += (
                FoundEntity(
                    part=index,
                    start=result.start,
                    end=result.end,
                    entity=result.entity_type,
                    score=result.score,
                )
                for result in results
            )
    except Exception as error:
        return AnalysisResult(error=f"{type(error).__name__} while analyzing")
    return AnalysisResult(entities=entities)


if __name__ == "__main__":
    main()
