"""Run Presidio in a child process: read texts from stdin, write found entities to stdout."""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, BinaryIO

from placet.relay.detectors.presidio.frames import (
    READY_MARK,
    AnalysisRequest,
    AnalysisResult,
    FoundEntity,
    encode_frame,
    read_request,
)

LANGUAGE = "en"
WORDS_AFTER = 2
"""How many words after a number count as its context. Presidio counts five before it."""
ENHANCED_SCORE = 0.85
MAX_CONTEXT_WORDS, MAX_REJECTED = 8, 20
WARM_UP_TEXT = "my SSN is 536-22-8764"
_GLUE = r"""(?<=[A-Za-z])["']?[:=/#]["']?(?=\d)"""
_WORD_OR_SIGN = re.compile(r"[^\W\d_]+|\d+(?:[-.]\d+)*|\s|.", re.DOTALL)


def main() -> None:
    """Load Presidio once, and then serve until standard input ends.

    On Linux a forked worker does the work. If it is killed because it takes too long, the next one starts in
    milliseconds, without loading Presidio again.
    """
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of a library must not get between the frames
    try:
        engine: Any = build_analyzer(sys.argv[1] if len(sys.argv) > 1 else None)
        recorder = RejectionRecorder(engine)
        engine.analyze(WARM_UP_TEXT, language=LANGUAGE)  # the first analysis is slow
    except Exception as error:
        _write_result(
            output,
            AnalysisResult(error=f"Presidio did not start: {type(error).__name__}: {error}"),
            READY_MARK,
        )
        return
    if not sys.platform.startswith("linux"):
        _serve(engine, recorder, output)
        return
    was_killed = True
    while was_killed:
        worker_pid = os.fork()
        if worker_pid == 0:
            with suppress(BrokenPipeError):  # the relay has ended
                _serve(engine, recorder, output)
            os._exit(0)
        was_killed = os.waitstatus_to_exitcode(os.waitpid(worker_pid, 0)[1]) != 0


def _serve(engine: Any, recorder: "RejectionRecorder", output: BinaryIO) -> None:
    requests = os.fdopen(0, "rb", closefd=False)
    _discard_stale_input()
    _write_result(output, AnalysisResult(pid=os.getpid()), READY_MARK)
    while (request := read_request(requests)) is not None:
        _write_result(output, _analyze(engine, recorder, request))


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

    language = _load_language(spacy, model) if model else _build_blank_language(spacy)
    from presidio_analyzer import AnalyzerEngine
    from presidio_analyzer.context_aware_enhancers import LemmaContextAwareEnhancer
    from presidio_analyzer.nlp_engine import SpacyNlpEngine

    engine: Any = SpacyNlpEngine(models=[{"lang_code": LANGUAGE, "model_name": model or "blank"}])
    # Setting the model prevents Presidio from downloading one.
    engine.nlp = {LANGUAGE: language}
    enhancer = LemmaContextAwareEnhancer(context_suffix_count=WORDS_AFTER)
    return AnalyzerEngine(nlp_engine=engine, supported_languages=[LANGUAGE], context_aware_enhancer=enhancer)


def _load_language(spacy: Any, model: str) -> Any:
    """Return a model that also splits a name from the number that follows it, as in `ssn:536-22-8764`."""
    language = spacy.load(model)
    infixes = [*(language.Defaults.infixes or ()), _GLUE]
    language.tokenizer.infix_finditer = spacy.util.compile_infix_regex(infixes).finditer
    return language


def _build_blank_language(spacy: Any) -> Any:
    """Return a blank model with lowercase words as lemmas, which Presidio compares with context words.

    It splits words at every sign, so that `{"ssn":"536-22-8764"}` has the words of "ssn 536-22-8764".
    """

    def split_words(text: str) -> Any:
        return spacy.tokens.Doc(language.vocab, **split_text(text))

    def lowercase_lemmas(document: Any) -> Any:
        for token in document:
            token.lemma_ = token.lower_ if token.text[0].isalnum() else "."
        return document

    spacy.Language.component("placet_lowercase_lemmas", func=lowercase_lemmas)
    language = spacy.blank(LANGUAGE)
    language.tokenizer = split_words
    language.add_pipe("placet_lowercase_lemmas")
    return language


def split_text(text: str) -> dict[str, list[Any]]:
    """Return the words and other signs of a text, and for each whether a space follows."""
    words: list[str] = []
    spaces: list[bool] = []
    for word in _WORD_OR_SIGN.findall(text):
        if word == " " and words and not spaces[-1]:
            spaces[-1] = True
        else:
            words.append(word)
            spaces.append(False)
    return {"words": words, "spaces": spaces}


class RejectionRecorder:
    """Records texts with the form of an entity that their recognizer rejects, such as sample numbers."""

    def __init__(self, engine: Any) -> None:
        self._rejected: set[tuple[str, str]] = set()
        for recognizer in engine.registry.recognizers:
            if hasattr(recognizer, "invalidate_result"):
                self._watch(recognizer)

    def _watch(self, recognizer: Any) -> None:
        entity = recognizer.supported_entities[0]
        invalidate, validate = recognizer.invalidate_result, recognizer.validate_result

        def invalidate_and_record(text: str) -> Any:
            if (is_invalid := invalidate(text)) and len(self._rejected) < MAX_REJECTED:
                self._rejected.add((entity, text))
            return is_invalid

        def validate_and_record(text: str) -> Any:
            if (is_valid := validate(text)) is False and len(self._rejected) < MAX_REJECTED:
                self._rejected.add((entity, text))
            return is_valid

        recognizer.invalidate_result, recognizer.validate_result = invalidate_and_record, validate_and_record

    def take(self, part: int, text: str, found: Sequence[FoundEntity]) -> list[FoundEntity]:
        """Return what was rejected in this text since the last call, except parts of what was found."""
        rejected, self._rejected = sorted(self._rejected), set()
        places = [(entity, text.find(value), value) for entity, value in rejected]
        return [
            FoundEntity(part=part, start=start, end=start + len(value), entity=entity, score=0.0)
            for entity, start, value in places
            if start >= 0 and not any(one.start < start + len(value) and start < one.end for one in found)
        ]


def _analyze(engine: Any, recorder: RejectionRecorder, request: AnalysisRequest) -> AnalysisResult:
    entities: list[FoundEntity] = []
    rejected: list[FoundEntity] = []
    context = {recognizer.id: recognizer.context or [] for recognizer in engine.registry.recognizers}
    try:
        for index, part in enumerate(request.parts):
            results = engine.analyze(
                part.text, language=LANGUAGE, entities=request.entities, context=part.context or None
            )
            found = [
                FoundEntity(
                    part=index,
                    start=result.start,
                    end=result.end,
                    entity=result.entity_type,
                    score=result.score,
                    context=_list_missing_context(result, context),
                )
                for result in results
            ]
            entities += found
            rejected += recorder.take(index, part.text, found)
    except Exception as error:
        return AnalysisResult(error=f"{type(error).__name__} while analyzing")
    return AnalysisResult(entities=entities, rejected=rejected)


def _list_missing_context(result: Any, context: Mapping[str, list[str]]) -> list[str]:
    """Return the words that would have raised the score of a result, unless one of them did."""
    metadata = result.recognition_metadata or {}
    if result.score >= ENHANCED_SCORE or metadata.get("is_score_enhanced_by_context"):
        return []
    return context.get(metadata.get("recognizer_identifier", ""), [])[:MAX_CONTEXT_WORDS]


if __name__ == "__main__":
    main()
