"""What all classifiers share."""
