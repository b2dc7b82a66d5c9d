import numpy as np
from numpy.typing import NDArray

from .descent import Descent

BITS: dict[str, int]

class ActiveSet(Descent):
    def turn_to(
        self, Q: NDArray[np.float64], c: NDArray[np.float64], root: NDArray[np.float64], scale: float
    ) -> None: ...
    def attach(
        self,
        rows: NDArray[np.float64],
        slot: NDArray[np.intc],
        c: NDArray[np.float64],
        root: NDArray[np.float64],
        g: NDArray[np.float64],
    ) -> None: ...
    def grow(
        self,
        Q: NDArray[np.float64],
        c: NDArray[np.float64],
        root: NDArray[np.float64],
        rows: NDArray[np.float64],
        feature: NDArray[np.intc],
        size: int,
        ridge: NDArray[np.float64] | None = None,
    ) -> None: ...
    def set_ridge(self, ridge: NDArray[np.float64], level: float) -> None: ...
    def set_level(self, level: float) -> None: ...
    def begin(self, slots: NDArray[np.intc], values: NDArray[np.float64]) -> None: ...
    def support(self) -> tuple[NDArray[np.intc], NDArray[np.float64]]: ...
    def lacking(self) -> tuple[NDArray[np.float64], int, int, int]: ...

def solve_all(
    states: list[ActiveSet],
    A: NDArray[np.float64],
    aim: NDArray[np.float64],
    unit: NDArray[np.float64],
    W: NDArray[np.float64],
    status: NDArray[np.intc],
    rounds: NDArray[np.intc],
    max_rounds: int = 0,
) -> None: ...
def solve_path(
    states: list[ActiveSet],
    lams: NDArray[np.float64],
    A: NDArray[np.float64],
    aim: NDArray[np.float64],
    unit: NDArray[np.float64],
    begin: int,
    end: int,
    go_on: int,
    feature: NDArray[np.intc],
    value: NDArray[np.float64],
    entries: NDArray[np.intc],
    status: NDArray[np.intc],
    max_rounds: int = 0,
) -> int: ...
