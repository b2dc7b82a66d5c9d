"""The paper's experiments, as descriptions that anyone can run: `msmtfl reproduce`, or

>>> from pathlib import Path
>>> from msmtfl.experiments import Figure1, run
>>> claims = run(Figure1().quick(), Path("results"), jobs=2)  # doctest: +SKIP
"""

from .base import Claim, Experiment, NotAvailableError
from .growth import Growth
from .guarantees import Guarantees
from .prediction import Isolet, Mri
from .runner import as_table, run
from .starts import Starts
from .synthetic import Figure1, Figure2

EXPERIMENTS = {
    experiment.name: experiment for experiment in (Figure1, Figure2, Isolet, Mri, Guarantees, Growth, Starts)
}

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
