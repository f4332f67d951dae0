"""spaCy: contextual vectors for docs, spans and tokens, from a component that spaCy finds by its entry point."""

import spacy

nlp = spacy.blank("en")
nlp.add_pipe("sentencizer")
if not nlp.has_factory("elmo"):  # a checkout on the path has no entry points; an installed package does
    import elmo.integrations.spacy  # noqa: F401
nlp.add_pipe("elmo", config={"layers": "top"})

texts = ["She sat on the river bank.", "He fished from the bank of the stream.", "The bank lent him money."]
docs = list(nlp.pipe(texts))
print("layers, tokens, dim:", docs[0]._.elmo.shape)
river, stream, money = (next(token for token in doc if token.text == "bank") for doc in docs)
print(f"bank (river) and bank (stream): {river.similarity(stream):.3f}")
print(f"bank (river) and bank (money):  {river.similarity(money):.3f}")
