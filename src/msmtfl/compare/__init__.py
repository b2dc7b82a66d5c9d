"""Which model suits the data: all of them on the same folds, and the choice among them."""
