"""One mechanism a file. Layers know torch alone and take flat keyword arguments.

Shape letters: B images, C captions (or beams, or samples) of an image, T words, N vectors attended to, H heads,
D model width, K = D / H head width. A tensor of an image that all its captions share has 1 in the place of C.
"""
