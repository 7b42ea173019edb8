"""What a run reads and writes beside training, by estimate: looks, scores, samples."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lingraft.paths import path_of
from lingraft.recipe.evaluation import (
    CHARACTERS_OF_A_SENTENCE,
    REPEATS,
    SAMPLES_AT_ONCE,
    TIMED,
)

if TYPE_CHECKING:
    from lingraft.recipe import Evaluation

CONTEXT = 2.0
"""A word stands in a sentence of so many times the mean length: long ones have more words."""
FEWEST_LOOKED_AT = 100
"""Validation sentences of a look ..."""
FEWEST_DOCUMENTS, FEWEST_TOKENS = 10, 2_000
"""... or of a causal model, which predicts every token of its documents."""
CHARACTERS_OF_A_TOKEN = 3.0
"""Of texts and questions that are judged beside the test text; about."""
A_TOKEN, A_LAYER = 2e-3, 1e-3
"""Seconds of a generated token that do not depend on the width: of the loop, and of a layer."""
READING = {"cpu": 1e-10, "cuda": 1e-12}
"""Seconds a byte of weights, which every generated token reads."""


@dataclass(frozen=True)
class Text:
    """What the tokenizer stage counted, of each stream: all are looked at, and scored."""

    streams: tuple[dict[str, Any], ...]
    causal: bool

    @classmethod
    def of(cls, result: dict[str, Any], *, causal: bool) -> Text:
        """From the stage's result."""
        return cls(tuple((result.get("streams") or {"": result}).values()), causal)

    def looked_at(self, sentences: int) -> float:
        """Tokens of a look at the validation text."""
        return sum(
            min(sentences, valid["sentences"]) * _length(valid)
            for valid in (stream["tokens"]["valid"] for stream in self.streams)
        )

    @property
    def most_looked_at(self) -> int:
        """Validation sentences that there are, of the stream with most."""
        return max(stream["tokens"]["valid"]["sentences"] for stream in self.streams)

    @property
    def most_scored(self) -> int:
        """Test sentences that there are, as `evaluation.sentences` counts them."""
        if not self.causal:
            return max(stream["tokens"]["test"]["sentences"] for stream in self.streams)
        most = max(_characters(stream) for stream in self.streams)
        return math.ceil(most / CHARACTERS_OF_A_SENTENCE)

    @property
    def fewest_looked_at(self) -> int:
        """Sentences of a look that tell enough; documents of causal models."""
        if not self.causal:
            return FEWEST_LOOKED_AT
        shortest = min(_length(stream["tokens"]["valid"]) for stream in self.streams)
        enough = math.ceil(FEWEST_TOKENS / max(shortest, 1.0))
        return min(FEWEST_LOOKED_AT, max(FEWEST_DOCUMENTS, enough))

    def scored(self, section: Evaluation) -> float:
        """Tokens that an evaluation reads.

        Of an encoder two schemes, and a pass for each token of a word, at most one of a sentence.
        Of a causal model each document once, and by its source too, in the source's own tokens.
        """
        if self.causal:
            return sum(_documents(stream, section) for stream in self.streams) + _others(section)
        total = 0.0
        for stream in self.streams:
            test = stream["tokens"]["test"]
            per_word = stream["statistics"]["train"]["tokens_per_word"] or 2.0
            passes = min(section.words, test["sentences"]) * per_word * CONTEXT
            total += (2 * min(section.sentences, test["sentences"]) + passes) * _length(test)
        return total

    def writing(self, section: Evaluation, layers: int, parameters: int, device: str) -> float:
        """Seconds that a causal model and its source take to write what is asked for, alone."""
        if not self.causal:
            return 0.0
        samples = 2 * math.ceil(section.samples / SAMPLES_AT_ONCE)  # greedy and drawn
        times = len(TIMED) * REPEATS + samples
        written = (1 + section.untouched) * section.generated * times
        reading = READING.get(device, READING["cuda"]) * 4 * parameters
        return written * (A_TOKEN + A_LAYER * layers + reading)


def _length(counts: dict[str, int]) -> float:
    """Mean tokens of a sentence."""
    return counts["tokens"] / max(counts["sentences"], 1)


def _documents(stream: dict[str, Any], section: Evaluation) -> float:
    """Tokens of the test documents of a stream, by the model and its source."""
    sides = [stream["statistics"]["test"]]
    if section.untouched and "source_statistics" in stream:
        sides.append(stream["source_statistics"]["test"])
    a_token = [side["characters_per_token"] or CHARACTERS_OF_A_TOKEN for side in sides]
    characters = min(_characters(stream), section.sentences * CHARACTERS_OF_A_SENTENCE)
    return sum(characters / per_token for per_token in a_token)


def _characters(stream: dict[str, Any]) -> float:
    """Of the test text of a stream."""
    a_token = stream["statistics"]["test"]["characters_per_token"] or CHARACTERS_OF_A_TOKEN
    return float(stream["tokens"]["test"]["tokens"] * a_token)


def _others(section: Evaluation) -> float:
    """Tokens of kept texts and questions, by the model and its source."""
    kept = [section.sentences * CHARACTERS_OF_A_SENTENCE] * len(section.kept)
    files = [path_of(choices.file) for choices in section.choices]
    questions = [file.stat().st_size for file in files if file.is_file()]
    return (1 + section.untouched) * sum([*kept, *questions]) / CHARACTERS_OF_A_TOKEN
