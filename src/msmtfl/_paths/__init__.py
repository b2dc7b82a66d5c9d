"""A whole grid: its points, their solutions, held-out errors and the choice of one."""
