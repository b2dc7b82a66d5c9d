"""The paper's experiments, as descriptions that anyone can run; `msmtfl reproduce` does."""

from .paper.experiments import (
    EXPERIMENTS,
    Claim,
    Experiment,
    Figure1,
    Figure2,
    Growth,
    Guarantees,
    Isolet,
    Mri,
    NotAvailableError,
    Starts,
    as_table,
    run,
)

__all__ = [
    "EXPERIMENTS",
    "Claim",
    "Experiment",
    "Figure1",
    "Figure2",
    "Growth",
    "Guarantees",
    "Isolet",
    "Mri",
    "NotAvailableError",
    "Starts",
    "as_table",
    "run",
]
