"""Caption metrics: the CIDEr-D reward, pycocoevalcap's scorers with time limits, signatures; does not import torch."""
