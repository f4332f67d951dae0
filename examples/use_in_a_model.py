"""ELMo inside a plain PyTorch model: a tagger that learns from the vectors which words begin with a capital letter."""

import torch
from torch import nn

import elmo

SENTENCES = [
    ["We", "saw", "Anna", "in", "Paris", "."],
    ["the", "river", "runs", "past", "Basel"],
    ["He", "said", "no", "to", "Mr.", "Brown"],
    ["nobody", "came"],
]


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.elmo = elmo.ElmoLayer(elmo.load(), places=1, dropout=0.1)
        self.score = nn.Linear(self.elmo.output_dim, 2)

    def forward(self, sentences: list[list[str]]) -> torch.Tensor:
        output = self.elmo(sentences)
        return self.score(output.places[0])[output.mask]  # (real tokens, 2)


torch.manual_seed(0)
model = Tagger()
optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.05)
target = torch.tensor([int(token[0].isupper()) for sentence in SENTENCES for token in sentence])
for step in range(61):
    loss = nn.functional.cross_entropy(model(SENTENCES), target) + model.elmo.penalty(0.001)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(f"step {step:3d}  loss {loss.item():.3f}")
shares = ", ".join(f"{weight:.2f}" for weight in model.elmo.mix_weights()[0])
print(f"layers mixed as {shares}; gamma {model.elmo.gammas()[0]:.2f}")
