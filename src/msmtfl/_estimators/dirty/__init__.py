"""The dirty model, shared plus task-specific coefficients: regressions and classifiers."""
