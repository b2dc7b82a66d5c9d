"""A simulated stand-in for the MRI experiment, for those who have no access to ADNI's data."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from .._data.designs import Floats
from .adni import PAPER_FEATURES, PAPER_SIZES
from .dataset import Dataset

PATIENTS, PAIRS, LOBES = 675, 34, 6  # 34 regions of the cortex on the left, the same on the right
KINDS = ("area", "thickness", "volume", "spread")  # measured in each region; 34 more volumes lie below the cortex
SHARED, SPECIFIC = 8, 3  # features that matter at every visit, and besides at each one
SHARE = 0.5  # of the variance is explained before scores are rounded and cut at 0 and 30


def make_mri_standin(random_state: Any = 0) -> Dataset:
    """Make SIMULATED data of the size and kind of the paper's MRI experiment.

    They are not ADNI: results say nothing about patients. 675 simulated patients have 306 measurements of a
    scan: volumes in the thousands, thicknesses around 2.5, areas; all positive, correlated by head size,
    atrophy, lobe and the two sides. Each patient is seen at some of six visits, with the paper's numbers
    648, 642, 293, 569, 389 and 87; the features are those of the one scan, so that a patient's sample
    recurs in several tasks. Scores are whole numbers from 0 to 30 that decline with time: 8 features matter
    at all visits, and more the later; 3 more at each visit alone. What remains is partly the patient's own,
    the same at all visits; a good linear model explains some 40 % of the variance.

    Parameters
    ----------
    random_state : int, RandomState instance or None, default=0
        The source of randomness.

    Returns
    -------
    Dataset
        Tasks "M06" .. "M48"; `group` holds the patients.

    Examples
    --------
    >>> from msmtfl.datasets import make_mri_standin
    >>> data = make_mri_standin()
    >>> data.X.shape, data.sizes
    ((2628, 306), {'M06': 648, 'M12': 642, 'M18': 293, 'M24': 569, 'M36': 389, 'M48': 87})
    """
    random = check_random_state(random_state)
    scan, names = _scans(random)
    Z = (scan - scan.mean(axis=0)) / scan.std(axis=0)
    special = random.permutation(PAPER_FEATURES)[: SHARED + SPECIFIC * len(PAPER_SIZES)]
    shared, others = special[:SHARED], np.split(special[SHARED:], len(PAPER_SIZES))
    weight = random.uniform(0.6, 1.4, SHARED) * random.choice([-1.0, 1.0], SHARED)
    own = random.standard_normal(PATIENTS)
    seen = _visits(random)
    scores = []
    for visit, extra, rows in zip(PAPER_SIZES, others, seen, strict=True):
        years = int(visit[1:]) / 12
        signal = Z[:, shared] @ weight + Z[:, extra] @ random.uniform(-1.0, 1.0, SPECIFIC)
        noise = (own + random.standard_normal(PATIENTS)) / np.sqrt(2.0)
        course = np.sqrt(SHARE) * signal / signal.std() + np.sqrt(1.0 - SHARE) * noise
        scores.append(np.clip(np.rint(26.5 - 0.7 * years + (2.8 + 0.5 * years) * course[rows]), 0, 30))
    place = np.concatenate(seen)
    return Dataset(
        name="SIMULATED stand-in for MRI data, not ADNI",
        X=scan[place],
        y=np.concatenate(scores),
        task=np.repeat(list(PAPER_SIZES), list(PAPER_SIZES.values())),
        feature_names=names,
        description=(
            "SIMULATED, not ADNI: random numbers in the shape of the paper's MRI experiment (675 patients, six visits, 306 "
            "measurements, scores from 0 to 30). Results on them say nothing about patients or the paper's data."
        ),
        source="msmtfl.datasets.make_mri_standin",
        group=place,
    )


def _scans(random: np.random.RandomState) -> tuple[Floats, np.ndarray]:
    """(patients, 306) measurements and their names"""
    head, atrophy = random.standard_normal((2, PATIENTS, 1))
    lobes = random.standard_normal((PATIENTS, LOBES))[:, np.arange(PAIRS) % LOBES]

    def both_sides() -> Floats:
        """(patients, 68) of unit variance: left and right, correlated with 0.6"""
        pair = np.tile(random.standard_normal((PATIENTS, PAIRS)), 2)
        return np.asarray(np.sqrt(0.6) * pair + np.sqrt(0.4) * random.standard_normal((PATIENTS, 2 * PAIRS)))

    def scale(low: float, high: float, count: int) -> Floats:
        return np.asarray(np.exp(random.uniform(np.log(low), np.log(high), count)))

    sizes = np.tile(scale(300, 6000, PAIRS), 2)
    area = sizes * np.exp(0.13 * (0.7 * head + 0.7 * both_sides()))
    thinning = 0.5 * atrophy + 0.5 * np.tile(lobes, 2) + 0.7 * both_sides()
    thickness = np.tile(random.uniform(2.0, 3.0, PAIRS), 2) * np.exp(-0.07 * thinning)
    volume = area * thickness * np.exp(0.05 * both_sides())
    spread = 0.25 * thickness * np.exp(0.1 * both_sides())
    loss = np.where(np.arange(PAIRS) < PAIRS - 4, -0.6, 1.2)  # the last are cavities, which grow
    deep = scale(300, 20000, PAIRS) * np.exp(
        0.15 * (0.5 * head + loss * atrophy + 0.7 * random.standard_normal((PATIENTS, PAIRS)))
    )
    names = [f"region{r:02d}_{kind}" for kind in KINDS for r in range(1, 2 * PAIRS + 1)]
    names += [f"deep{r:02d}_volume" for r in range(1, PAIRS + 1)]
    return np.hstack([area, thickness, volume, spread, deep]), np.array(names)


def _visits(random: np.random.RandomState) -> list[np.ndarray]:
    """The patients seen at each visit: who is likely to drop out is so at all visits, and everyone is seen once."""
    loyalty = random.standard_normal(PATIENTS)
    seen: list[np.ndarray] = []
    for n in PAPER_SIZES.values():
        likely = loyalty + random.standard_normal(PATIENTS)
        if len(seen) == 1:
            likely[np.setdiff1d(np.arange(PATIENTS), seen[0])] = np.inf  # not at the first visit: surely at the second
        seen.append(np.sort(np.argsort(-likely, kind="stable")[:n]))
    return seen
