"""The Presidio child process: read texts from stdin, write found entities to stdout."""

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

    On Linux an analyst of its own, forked from this process, does the work: when one is ended because it took
    too long, the next is there in milliseconds, and nothing is loaded again.
    """
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not come between the frames
    try:
        engine: Any = build_analyzer(sys.argv[1] if len(sys.argv) > 1 else None)
    except Exception as error:
        _write_result(
            answers,
            AnalysisResult(error=f"Presidio did not start: {type(error).__name__}: {error}"),
            READY_MARK,
        )
        return
    if not sys.platform.startswith("linux"):
        _serve(engine, answers)
        return
    ended = True
    while ended:
        analyst = os.fork()
        if analyst == 0:
            with suppress(BrokenPipeError):  # nobody is there any more who could ask
                _serve(engine, answers)
            os._exit(0)
        ended = os.waitstatus_to_exitcode(os.waitpid(analyst, 0)[1]) != 0


def _serve(engine: Any, answers: BinaryIO) -> None:
    questions = os.fdopen(0, "rb", closefd=False)
    _discard_stale_input()
    _write_result(answers, AnalysisResult(pid=os.getpid()), READY_MARK)
    while (asked := read_request(questions)) is not None:
        _write_result(answers, _analyze(engine, asked))


def _discard_stale_input() -> None:
    """An analyst that was ended may not have read all of its question; nobody asks before we are ready."""
    os.set_blocking(0, False)
    with suppress(BlockingIOError):
        while os.read(0, 1 << 16):
            pass
    os.set_blocking(0, True)


def _write_result(answers: BinaryIO, found: AnalysisResult, before: bytes = b"") -> None:
    answers.write(before + encode_frame(found))
    answers.flush()


def build_analyzer(model: str | None) -> Any:
    """Presidio's own analyzer and recognizers, on a spaCy model or on none."""
    import spacy

    language = spacy.load(model) if model else _build_blank_language(spacy)
    from presidio_analyzer import AnalyzerEngine
    from presidio_analyzer.nlp_engine import SpacyNlpEngine

    engine: Any = SpacyNlpEngine(models=[{"lang_code": LANGUAGE, "model_name": model or "blank"}])
    # What is there already is not loaded, so that nothing is ever downloaded.
    engine.nlp = {LANGUAGE: language}
    return AnalyzerEngine(nlp_engine=engine, supported_languages=[LANGUAGE])


def _build_blank_language(spacy: Any) -> Any:
    """Words as their own lemmas: that is how Presidio recognizes the words that raise a score."""

    def lowercase_lemmas(document: Any) -> Any:
        for token in document:
            token.lemma_ = token.lower_
        return document

    spacy.Language.component("placet_lowercase_lemmas", func=lowercase_lemmas)
    language = spacy.blank(LANGUAGE)
    language.add_pipe("placet_lowercase_lemmas")
    return language


def _analyze(engine: Any, asked: AnalysisRequest) -> AnalysisResult:
    places: list[FoundEntity] = []
    try:
        for number, part in enumerate(asked.parts):
            found = engine.analyze(
                part.text, language=LANGUAGE, entities=asked.entities, context=part.context or None
            )
            places += (
                FoundEntity(
                    part=number, start=one.start, end=one.end, entity=one.entity_type, score=one.score
                )
                for one in found
            )
    except Exception as error:
        return AnalysisResult(error=f"{type(error).__name__} while analyzing")
    return AnalysisResult(places=places)


if __name__ == "__main__":
    main()
