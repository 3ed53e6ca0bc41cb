"""Finished runs in MLflow, made from the result files: deleting MLflow's store loses nothing.

Training and scoring never import this package: no run depends on a tracking service.
"""
