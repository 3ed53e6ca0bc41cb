"""Results for others: captions of photos, exports, MLflow, DVC."""
