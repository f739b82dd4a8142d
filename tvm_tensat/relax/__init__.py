"""Relax functions to e-graphs and back."""
