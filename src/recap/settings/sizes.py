"""Sizes that are numbers in a YAML file and memory or time in a job; beyond these limits they are mistakes.

A model of a billion layers would be built for ever before the first job.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, NonNegativeInt, PositiveInt

_MOST_LAYERS, _WIDEST, _LARGEST_EDGE, _MOST_CELLS = 100, 16_384, 4096, 256

Layers = Annotated[PositiveInt, Field(le=_MOST_LAYERS)]
LayersOr0 = Annotated[NonNegativeInt, Field(le=_MOST_LAYERS)]
Width = Annotated[PositiveInt, Field(le=_WIDEST)]
WidthOr0 = Annotated[NonNegativeInt, Field(le=_WIDEST)]
"""Of vectors; also heads, slots and positions, each a row of a table."""
Edge = Annotated[PositiveInt, Field(le=_LARGEST_EDGE)]
"""Of a picture, in pixels."""
Cells = Annotated[PositiveInt, Field(le=_MOST_CELLS)]
"""Of a grid, per edge."""
