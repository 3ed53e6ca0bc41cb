"""Counts and times the steps of trainings and of decoding at their true size."""
