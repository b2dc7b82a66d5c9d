"""Compiled loops: the active set of weighted lassos, sweeps over coupled rows, the stages of capped penalties."""
