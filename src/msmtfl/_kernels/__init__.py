"""Compiled loops: products with data, active sets of weighted lassos, sweeps over coupled rows, stages of capped penalties."""
