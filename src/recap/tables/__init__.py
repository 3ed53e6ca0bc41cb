"""Tables of results as one frame and four formats, sample captions and contact sheets.

Does not import torch.
"""
