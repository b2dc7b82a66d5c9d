"""Multi-stage multi-task feature learning, the model of the paper: regressions and classifiers."""
