"""Multi-task data: the paper's synthetic generator, its real data where they can be had, and a stand-in where not."""

from .adni import load_adni
from .dataset import Dataset
from .isolet import fetch_isolet
from .school import load_school
from .splits import split_tasks
from .standin import make_mri_standin
from .synthetic import Sample, make_multitask

__all__ = [
    "Dataset",
    "Sample",
    "fetch_isolet",
    "load_adni",
    "load_school",
    "make_mri_standin",
    "make_multitask",
    "split_tasks",
]
