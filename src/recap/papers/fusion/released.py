"""Why no Fusion Transformer is imported."""

NOT_IMPORTED = "no checkpoint of the Fusion Transformer was released; train the models in params/fusion"
