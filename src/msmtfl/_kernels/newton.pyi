import numpy as np
from numpy.typing import NDArray

KINDS: dict[str, int]
STATUS: dict[str, int]

class Newton:
    def __init__(
        self,
        X: NDArray[np.float64],
        y: NDArray[np.float64],
        v: NDArray[np.float64],
        offset: NDArray[np.float64],
        root: NDArray[np.float64],
        unit: float,
        kind: int,
        epsilon: float,
        centre: bool,
        level: float,
        order: int,
        positive: bool,
    ) -> None: ...
    def begin(self, w: NDArray[np.float64], level: float) -> None: ...
    def set_ridge(self, ridge: NDArray[np.float64], order: int) -> None: ...

def solve_all(
    states: list[Newton],
    A: NDArray[np.float64],
    aim: NDArray[np.float64],
    unit: NDArray[np.float64],
    W: NDArray[np.float64],
    levels: NDArray[np.float64],
    status: NDArray[np.intc],
    steps: NDArray[np.intc],
) -> None: ...
