"""Plain text -> a trained biLM: corpus, batches, softmax, the loop, perplexity, fine-tuning (paper, section 3)."""
