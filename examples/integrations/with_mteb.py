"""MTEB: evaluate ELMo as a sentence-transformers model on a task of five pairs, without a network."""

import mteb
from datasets import Dataset
from mteb.abstasks.sts import AbsTaskSTS
from mteb.abstasks.task_metadata import TaskMetadata
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling

from elmo.integrations.sentence_transformers import Elmo

PAIRS = [
    ("She sat on the river bank.", "She sat on the bank of the river.", 5.0),
    ("He fished from the bank.", "He was fishing at the river.", 4.0),
    ("The bank lent him money.", "He took a loan from the bank.", 4.0),
    ("The bank lent him money.", "She sat on the river bank.", 1.0),
    ("It rained all day.", "The parliament passed the law.", 0.0),
]


class FewPairs(AbsTaskSTS):
    metadata = TaskMetadata(
        name="FewPairs", description="Five pairs", dataset={"path": "few-pairs", "revision": "1"}, type="STS",
        category="t2t", eval_splits=["test"], eval_langs=["eng-Latn"], main_score="cosine_spearman",
    )  # fmt: skip

    def load_data(self, **_: object) -> None:
        first, second, score = zip(*PAIRS, strict=True)
        self.dataset = {"test": Dataset.from_dict({"sentence1": first, "sentence2": second, "score": score})}
        self.data_loaded = True


elmo = Elmo()  # the bundled biLM; or a path, or a Hub name
model = SentenceTransformer(modules=[elmo, Pooling(elmo.get_embedding_dimension(), "mean")], device="cpu")
results = mteb.evaluate(model, FewPairs(), cache=None, show_progress_bar=False)
print("Spearman:", round(results.task_results[0].scores["test"][0]["cosine_spearman"], 3))
