"""The view of all runs in MLflow: made from the files that jobs wrote, so that deleting it loses nothing.

Training and scoring never import this room: no run depends on a tracking service being well.
"""
