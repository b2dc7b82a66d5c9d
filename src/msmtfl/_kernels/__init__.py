"""Compiled loops: products of data, the active set of weighted lassos, sweeps over coupled rows, stages of capped penalties."""
