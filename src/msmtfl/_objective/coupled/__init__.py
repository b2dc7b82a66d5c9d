"""Penalties that couple the tasks: norms of rows, common parts, partial pooling, levels."""
