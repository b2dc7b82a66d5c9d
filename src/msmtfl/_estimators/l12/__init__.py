"""L1,2, the group lasso over tasks: regressions and classifiers."""
