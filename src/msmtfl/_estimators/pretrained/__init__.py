"""The pretrained lasso, one lasso for all tasks and then one per task that starts from it."""
