"""The task's character CNN: a word's vector depends only on the word."""

import torch

from elmo.tasks.layers.char_words import CharWords, CharWordsSettings


def spell(words: list[str], settings: CharWordsSettings, extra: int = 0) -> torch.Tensor:
    spelt = [settings.scheme.spell(word) for word in words]
    longest = max(map(len, spelt)) + extra
    return torch.tensor([ids + [settings.scheme.padding] * (longest - len(ids)) for ids in spelt])


def test_the_vector_equals_the_formula() -> None:
    torch.manual_seed(0)
    settings = CharWordsSettings(character_dim=4, widths=(3,), num_filters=5)
    words = CharWords(settings)
    ids = spell(["ab"], settings)
    found = words(ids)
    embedded = words.embedding(ids[0])
    padded = torch.cat([embedded, torch.zeros(2, 4)])
    convolution = words.convolutions[0]
    windows = torch.stack(
        [(convolution.weight * padded[start : start + 3].T).sum((1, 2)) + convolution.bias for start in range(4)]  # type: ignore[operator]
    )
    torch.testing.assert_close(found[0], windows.max(dim=0).values.relu())


def test_a_vector_does_not_depend_on_the_batch() -> None:
    torch.manual_seed(0)
    settings = CharWordsSettings(character_dim=4, widths=(2, 5), num_filters=6)
    words = CharWords(settings)
    together = words(spell(["a", "extraordinary"], settings, extra=3))
    torch.testing.assert_close(together[:1], words(spell(["a"], settings)))
    assert together.shape == (2, settings.output_dim) == (2, 12)


def test_long_words_are_truncated() -> None:
    settings = CharWordsSettings(character_dim=4, num_filters=5, max_characters=6)
    words = CharWords(settings)
    left, right = words(spell(["abcdX", "abcdY"], settings))
    assert torch.equal(left, right)
