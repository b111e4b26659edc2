"""The Presidio process: reads texts from standard input, and writes what it found to standard output."""

import os
import sys
from typing import Any

from assent.relay.detectors.presidio_wire import Asked, Found, Place, framed, read_asked

LANGUAGE = "en"


def main() -> None:
    """Serve until standard input ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not come between the frames
    try:
        engine: Any = analyzer(sys.argv[1] if len(sys.argv) > 1 else None)
    except Exception as error:
        answers.write(framed(Found(error=f"Presidio did not start: {type(error).__name__}: {error}")))
        answers.flush()
        return
    answers.write(framed(Found()))
    answers.flush()
    while (asked := read_asked(sys.stdin.buffer)) is not None:
        answers.write(framed(_answer(engine, asked)))
        answers.flush()


def analyzer(model: str | None) -> Any:
    """Presidio's own analyzer and recognizers, on a spaCy model or on none."""
    import spacy
    from presidio_analyzer import AnalyzerEngine
    from presidio_analyzer.nlp_engine import SpacyNlpEngine

    engine: Any = SpacyNlpEngine(models=[{"lang_code": LANGUAGE, "model_name": model or "blank"}])
    # What is there already is not loaded, so that nothing is ever downloaded.
    engine.nlp = {LANGUAGE: spacy.load(model) if model else _without_model(spacy)}
    return AnalyzerEngine(nlp_engine=engine, supported_languages=[LANGUAGE])


def _without_model(spacy: Any) -> Any:
    """Words as their own lemmas: that is how Presidio recognizes the words that raise a score."""

    def lowercase_lemmas(document: Any) -> Any:
        for token in document:
            token.lemma_ = token.lower_
        return document

    spacy.Language.component("assent_lowercase_lemmas", func=lowercase_lemmas)
    language = spacy.blank(LANGUAGE)
    language.add_pipe("assent_lowercase_lemmas")
    return language


def _answer(engine: Any, asked: Asked) -> Found:
    places: list[Place] = []
    try:
        for number, part in enumerate(asked.parts):
            found = engine.analyze(
                part.text, language=LANGUAGE, entities=asked.entities, context=part.context or None
            )
            places += (
                Place(part=number, start=one.start, end=one.end, entity=one.entity_type, score=one.score)
                for one in found
            )
    except Exception as error:
        return Found(error=f"{type(error).__name__} while analyzing")
    return Found(places=places)


if __name__ == "__main__":
    main()
