"""Docs -> the sentences that the biLM sees -> one array per doc."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from spacy.tokens import Doc

Embed = Callable[[list[list[str]]], list[np.ndarray]]


def embed_docs(docs: Iterable[Doc], embed: Embed, zeros: Callable[[int], np.ndarray]) -> list[np.ndarray]:
    """One array per doc, (..., tokens, dim), with zeros at whitespace tokens.

    `embed`: token lists to one array per sentence. `zeros`: the array of zeros for a doc with so many tokens.
    """
    places = [(doc, list(_sentences(doc))) for doc in docs]
    vectors = iter(embed([[doc[index].text for index in rows] for doc, own in places for rows in own]))
    arrays = []
    for doc, own in places:
        values = zeros(len(doc))
        for rows in own:
            values[..., rows, :] = next(vectors)
        arrays.append(values)
    return arrays


def _sentences(doc: Doc) -> Iterator[list[int]]:
    """The indices of each sentence's tokens, without whitespace."""
    spans: Iterable[Any] = doc.sents if doc.has_annotation("SENT_START") else [doc]
    for span in spans:
        rows = [token.i for token in span if not token.is_space]
        if rows:
            yield rows
