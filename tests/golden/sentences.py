"""The sentences that every golden file is made from; run it to write sentences.json.

Batches grow and shrink, so that carried state meets rows that join late, sit out and come back. The words go
where the old formats have corners: over 48 bytes, cut inside a code point, empty, outside the basic plane,
control bytes, the ideographic space that EFML's files lose, the strings that name sentence markers.
"""

import json
from pathlib import Path

BATCHES: list[list[list[str]]] = [
    [
        ["The", "bank", "raised", "its", "rates", "."],
        ["Pretty", "good"],
    ],
    [
        ["She", "sat", "by", "the", "bank", "of", "the", "river", "."],
        ["东京", "は", "大きい", "都市", "です", "。"],
        ["Yes"],
        ["naïve", "café", "Ωmega", "Здравствуй"],
    ],
    [
        ["Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft", "!"],
    ],
    [
        ["😀", "👩‍👩‍👧‍👦", "🇫🇷", "ok"],
        ["", "an", "empty", "", "token"],
        ["日" * 20, "a" * 47 + "é", "a" * 48, "a" * 49, "b" * 200],
    ],
    [
        ["<S>", "inside", "</S>", "<UNK>", "<bos>", "<oov>"],
        ["New York", "a\x00b", "\x7f", "\t"],
        ["The", "bank", "raised", "its", "rates", "."],
        [""],
        ["x", "y", "z", "x", "y", "z", "x", "y", "z", "x"],
    ],
    [
        ["Pretty", "good"],
        ["Last", "\u3000", "words\u3000", "."],
    ],
]

# bilm and AllenNLP run the markers of an empty sentence through the LSTM, so it moves the carried state.
WITH_EMPTY_SENTENCE: list[list[list[str]]] = [
    [["Before", "."], [], ["A", "longer", "one", "."]],
    [["After"], ["it", "came", "this"], ["."]],
]

# What a whitespace-separated file can hold, for `allennlp elmo`, which embeds lines of text.
LINES: list[str] = [
    "The bank raised its rates .",
    "She sat by the bank of the river .",
    "Pretty good",
    "naïve café 😀 東京",
    "The bank raised its rates .",
]


def main() -> None:
    everything = {"batches": BATCHES, "with_empty_sentence": WITH_EMPTY_SENTENCE, "lines": LINES}
    path = Path(__file__).with_suffix(".json")
    path.write_text(json.dumps(everything, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
