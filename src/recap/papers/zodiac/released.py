"""From the parameter names of the released ZoDIAC (zanyarz/zodiac) to ours."""

from functools import partial

from recap.models.released_names import rename_annotated

# For `layer_norm: unbiased` (docs/reference/parameters.md).
rename_official = partial(rename_annotated, projections=("query", "intensity_query", "key", "value", "output"))
