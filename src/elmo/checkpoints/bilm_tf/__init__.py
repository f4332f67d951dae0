"""bilm-tf's formats, which AllenNLP shares: options.json with weights in hdf5 or in a TensorFlow checkpoint."""
