"""What models share: interface, inputs, decoding state and cache, ensembles, registry."""
