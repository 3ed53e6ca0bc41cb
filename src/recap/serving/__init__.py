"""A trained run as an MLflow model, which answers photos with captions."""
