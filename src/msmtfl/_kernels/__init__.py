"""Compiled loops: products of X, active sets of weighted lassos, sweeps over coupled rows, stages of capped penalties."""
