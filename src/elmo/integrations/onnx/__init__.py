"""ELMo without torch: `export` writes a biLM as ONNX, `runner` embeds text with onnxruntime and numpy alone."""
