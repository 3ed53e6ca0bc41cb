"""From the parameter names of ruotianluo/ImageCaptioning.pytorch's Transformer, also ZoDIAC's baseline, to ours."""

from functools import partial

from recap.models.released_names import rename_annotated

# For `layer_norm: unbiased` (docs/reference/parameters.md).
rename_official = partial(rename_annotated, projections=("query", "key", "value", "output"))
