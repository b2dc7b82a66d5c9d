"""W for given weights: Algorithm 1, its stages, and what solves them."""
