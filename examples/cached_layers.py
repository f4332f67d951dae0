"""Compute the layers of a frozen biLM once, then train on them for many epochs without running the biLM."""

from pathlib import Path

import h5py
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

import elmo
from elmo.embedding.to_file import embed_to_file
from elmo.mix.scalar_mix import ScalarMix

SENTENCES = [
    ["We", "saw", "Anna", "in", "Paris", "."],
    ["the", "river", "runs", "past", "Basel"],
    ["He", "said", "no", "to", "Mr.", "Brown"],
    ["nobody", "came"],
]
CACHE = Path("layers.hdf5")
if not CACHE.exists():  # delete the file when the sentences or the model change
    embed_to_file(elmo.Embedder(layers="all"), SENTENCES, CACHE)

with h5py.File(CACHE) as file:  # (layers, tokens, dim) for each sentence
    layers = [torch.from_numpy(file[str(index)][()]) for index in range(len(SENTENCES))]
batch = pad_sequence([each.transpose(0, 1) for each in layers], batch_first=True).permute(2, 0, 1, 3)
mask = pad_sequence([torch.ones(len(sentence), dtype=torch.bool) for sentence in SENTENCES], batch_first=True)

torch.manual_seed(0)
mix, score = ScalarMix(num_layers=len(batch)), nn.Linear(batch.shape[-1], 2)
optimizer = torch.optim.Adam([*mix.parameters(), *score.parameters()], lr=0.05)
target = torch.tensor([int(token[0].isupper()) for sentence in SENTENCES for token in sentence])
for step in range(61):
    loss = nn.functional.cross_entropy(score(mix(batch, mask))[mask], target) + mix.penalty(0.001)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(f"step {step:3d}  loss {loss.item():.3f}")
print(f"layers mixed as {', '.join(f'{weight:.2f}' for weight in mix.normalised_weights)}, from {CACHE}")
