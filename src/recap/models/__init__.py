"""What all models share: the interface, their inputs, decoding state and cache, ensembles, the
registry."""
