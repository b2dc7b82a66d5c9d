import numpy as np
from numpy.typing import NDArray

from .arrow_factor import ArrowFactor

class Arrow(ArrowFactor):
    def __init__(
        self,
        Q: NDArray[np.float64],
        total: NDArray[np.float64],
        c: NDArray[np.float64],
        root: NDArray[np.float64],
        orders: NDArray[np.intc],
    ) -> None: ...
    def gradient(self) -> NDArray[np.float64]: ...
    def begin(self, P: NDArray[np.float64]) -> None: ...
    def set_ridge(self, ridge: NDArray[np.float64], P: NDArray[np.float64]) -> None: ...
    def solve(
        self,
        a: NDArray[np.float64],
        aim: NDArray[np.float64],
        unit: NDArray[np.float64],
        P: NDArray[np.float64],
        max_rounds: int = 0,
        project: bool = True,
    ) -> tuple[int, int]: ...
