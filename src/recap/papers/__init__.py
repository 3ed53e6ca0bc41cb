"""One folder per paper or baseline, with everything that only it needs, in the form of a plug-in.

A folder's `__init__` registers settings: of models with `recap.settings.models.MODELS`, of figures
with `recap.settings.figures.FIGURES`. `model` is the architecture, imported when a model is built;
`figures` draws, imported when a figure is drawn; `released` has the names of the parameters in the
paper's released checkpoints.
"""
