"""The settings of the paper's synthetic data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...datasets import Sample, make_multitask


@dataclass(frozen=True)
class Setting:
    m: int
    n: int
    d: int
    sigma: float

    def __str__(self) -> str:
        return f"m={self.m}, n={self.n}, d={self.d}, sigma={self.sigma:g}"

    def lam(self, alpha: float) -> float:
        return float(alpha * np.sqrt(np.log(self.d * self.m) / self.n))

    def theta(self, reading: str, ratio: float, lam: float) -> float:
        return ratio * self.m * lam * {"literal": 1, "scale-aware": self.n, "MATLAB": self.m * self.n}[reading]

    def sample(self, seed: int) -> Sample:
        return make_multitask(self.m, self.n, self.d, sigma=self.sigma, random_state=seed)


SETTINGS = (Setting(15, 40, 250, 0.01), Setting(20, 30, 200, 0.005), Setting(10, 60, 300, 0.001))
