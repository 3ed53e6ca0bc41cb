"""Caption metrics: the CIDEr-D reward, pycocoevalcap's scorers with time limits, signatures.

Does not import torch.
"""
