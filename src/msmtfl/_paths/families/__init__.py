"""Grids and paths of the families that do not solve lassos in stages."""
