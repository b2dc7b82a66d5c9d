"""From anything a user has to one design per task: tables, rows, statistics, batches, folds."""
