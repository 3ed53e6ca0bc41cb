"""Why a released Ada-ClustFormer is not imported."""

NOT_IMPORTED = (
    "a released Ada-ClustFormer appends a mask word and lets earlier words see later ones, which no model here does; "
    "train the model acf_released, which has its equations on a causal decoder"
)
