"""Weighted lassos of single tasks: what solves them, for any loss, with and without bounds."""
