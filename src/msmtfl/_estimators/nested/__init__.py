"""Models whose coefficients are sums over levels of tasks, as of regions and their schools."""
