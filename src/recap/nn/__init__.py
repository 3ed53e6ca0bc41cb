"""Layers that two or more papers use, one mechanism per file.

They know torch alone and take flat keyword arguments.

Shape letters: B images, C captions (or beams, or samples) per image, T tokens, N vectors attended
to, H heads, D model width, K = D / H head width. A tensor that all captions of an image share has 1
in place of C.
"""
