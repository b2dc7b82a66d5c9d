"""What is said of models: formulas, the words of their grids, summaries."""
