"""One lasso per task."""
