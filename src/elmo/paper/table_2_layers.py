"""Table 2: which layers a task needs."""

from __future__ import annotations

from elmo.paper.ablation import AblationTable, Order, Variant

TASKS = "ablated"

BASELINE, LAST, AVERAGE = "no ELMo", "last only", "all, lambda 1"
ALL, FIRST_TWO = "all, lambda 0.001", "first two, lambda 0.001"

TABLE = AblationTable(
    number=2,
    title="which layers",
    text="The same task models with no ELMo, with the biLM's last layer only, and with mixes of several layers.",
    command="layers",
    variants=(
        Variant(BASELINE, with_elmo=False),
        Variant(LAST, ("elmo.layers=[-1]",)),
        Variant(AVERAGE, ("elmo.layers=[]", "elmo.penalty=1.0")),
        Variant(ALL, ("elmo.layers=[]", "elmo.penalty=0.001")),
        # Not in the paper: a biLM without its highest layer is 19-44% faster, and for several tasks as good.
        Variant(FIRST_TWO, ("elmo.layers=[0, 1]", "elmo.penalty=0.001")),
    ),
    published={
        "question_answering": (80.8, 84.7, 85.0, 85.2),
        "entailment": (88.1, 89.1, 89.3, 89.5),
        "semantic_roles": (81.6, 84.1, 84.6, 84.8),
    },
    orders=(
        Order("All layers are better than the last only", ALL, LAST),
        Order("The last layer only is better than no ELMo", LAST, BASELINE),
        Order("Weights that may vary (lambda 0.001) are better than a plain average (lambda 1)", ALL, AVERAGE),
        Order(
            "The first two layers are as good as all, within half a point",
            *(FIRST_TWO, ALL),
            margin=0.5,
            source="later work",
        ),
    ),
)
make = TABLE.make
