"""What Peters et al. 2018 report, to be printed beside what is measured here.

Only figures that were read in the paper; None stands where we have none. Table 1 is in `elmo.tasks.table`.
"""

from __future__ import annotations

from elmo.analysis.ablation import ALL, AVERAGE, BASELINE, BOTH, INPUT, LAST, OUTPUT

LAYERS = {
    "question_answering": {BASELINE: 80.8, LAST: 84.7, AVERAGE: 85.0, ALL: 85.2},
    "entailment": {BASELINE: 88.1, LAST: 89.1, AVERAGE: 89.3, ALL: 89.5},
    "semantic_roles": {BASELINE: 81.6, LAST: 84.1, AVERAGE: 84.6, ALL: 84.8},
}
"""Table 2: development scores."""

PLACES: dict[str, dict[str, float | None]] = {
    "question_answering": {INPUT: None, BOTH: 85.6, OUTPUT: None},
    "entailment": {INPUT: 88.9, BOTH: 89.5, OUTPUT: 88.7},
    "semantic_roles": {INPUT: 84.7, BOTH: 84.3, OUTPUT: 80.9},
}
"""Table 3: development scores."""

SENSES = {"WordNet first sense": 65.9, "layer 1": 67.4, "layer 2": 69.0}
"""Table 5: F1 on four sets together, SemEval-2007 left out."""
FIRST_SENSE = {"four": 65.9, "ALL": 65.2}
"""What the baseline gives whoever reads the sets rightly."""

PARTS_OF_SPEECH: dict[str, float | None] = {"layer 1": 97.3, "layer 2": None}
"""Table 6: accuracy on the Penn Treebank; layer 2 is below layer 1."""

SAMPLES = "In the paper, semantic roles with ELMo and 1% of the data equal the baseline with 10%."
EPOCHS = "There the baseline is best in epoch 486; ELMo passes it in epoch 10."
WEIGHTS = "In the paper, at the input the first LSTM layer is favoured; at the output the weights are balanced."
