"""Partial pooling, common values and dense deviations from them: regressions and classifiers."""
