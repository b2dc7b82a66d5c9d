"""Certificates: how far a W is from the minimum, and whether it is the only one. Nothing here is shared with the solvers."""
