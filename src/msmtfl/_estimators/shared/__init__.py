"""Values common to all tasks and sparse deviations from them: regressions and classifiers."""
