"""Results for others: captions of photos, exports, a served model, MLflow, DVC."""
