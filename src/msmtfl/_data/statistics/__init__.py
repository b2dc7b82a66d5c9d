"""Statistics in the place of samples: sums of batches, of files, of what others send; their folds and files."""
