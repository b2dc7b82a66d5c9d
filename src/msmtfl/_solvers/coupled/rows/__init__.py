"""Norms of the rows of W, which couple the tasks: L1,2, Dirty and their like."""
