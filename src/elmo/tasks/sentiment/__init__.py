"""How positive a sentence is (Stanford Sentiment Treebank)."""
