"""Folds, errors on held-out samples, scores, and the choice of a point of a grid."""
