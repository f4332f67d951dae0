"""transformers: train a tagger with Trainer, use it in a pipeline, and open its folder with elmo again."""

import torch
from transformers import (
    AutoModelForTokenClassification,
    AutoTokenizer,
    DataCollatorForTokenClassification,
    Trainer,
    TrainingArguments,
    pipeline,
)

import elmo
import elmo.integrations.transformers  # registers ELMo with the Auto classes

LABELS = ["O", "PLACE"]
SENTENCES = [
    (["She", "lives", "in", "Oslo", "."], [0, 0, 0, 1, 0]),
    (["Rome", "is", "far", "from", "Lima", "."], [1, 0, 0, 0, 1, 0]),
    (["He", "flew", "to", "Cairo", "and", "Delhi", "."], [0, 0, 0, 1, 0, 1, 0]),
    (["They", "eat", "bread", "."], [0, 0, 0, 0]),
]

torch.manual_seed(0)
elmo.load().save_pretrained("bilm")  # the bundled biLM as a folder; any ELMo folder will do
tokenizer = AutoTokenizer.from_pretrained("bilm")
model = AutoModelForTokenClassification.from_pretrained("bilm", id2label=dict(enumerate(LABELS)))
examples = [{**tokenizer(words, is_split_into_words=True), "labels": labels} for words, labels in SENTENCES]
settings = TrainingArguments("run", max_steps=30, learning_rate=0.01, report_to=[], disable_tqdm=True, use_cpu=True)
trainer = Trainer(
    model, settings, train_dataset=examples, processing_class=tokenizer,
    data_collator=DataCollatorForTokenClassification(tokenizer),
)  # fmt: skip
trainer.train()
trainer.save_model("tagger")

tag = pipeline("token-classification", model="tagger", device="cpu")
print("places:", [found["word"] for found in tag("Bread is cheap in Oslo and in Lima.")])
print("the weight of each layer:", [round(weight, 2) for weight in model.elmo.mix.normalised_weights.tolist()])
print("the same biLM:", elmo.load("tagger").digest() == elmo.load().digest())
