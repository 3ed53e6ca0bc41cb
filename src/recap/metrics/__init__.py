"""Caption metrics: the CIDEr-D reward, pycocoevalcap's scorers with timeouts, signatures; never torch."""
