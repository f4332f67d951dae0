"""Hugging Face Hub: push a model and open it by its name.

HF_TOKEN=... python with_hub.py YOUR-NAME/elmo-example
"""

import sys

import elmo

name = sys.argv[1]
model = elmo.load()  # the bundled biLM; or your own
print("pushed to", model.push_to_hub(name, private=True))
again = elmo.load(name)
before, after = (elmo.Embedder(each).embed("A bank.")[0] for each in (model, again))
print("the same vectors:", bool((before == after).all()))
