"""One folder per paper or baseline, with everything that only it needs, in the form of a plug-in.

A folder's `__init__` makes its settings known to `recap.settings.models.MODELS`; `model` is the architecture, imported
when a model is built; `released` has the names of the parameters in the paper's released checkpoints.
"""
