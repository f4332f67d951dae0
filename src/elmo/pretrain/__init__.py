"""Plain text -> a trained biLM: corpus, batches, softmax, the training loop, perplexity, fine-tuning (paper, section 3)."""
