import numpy as np
from numpy.typing import NDArray

from .active_set import ActiveSet

ENDS: dict[str, int]

class StageLoop:
    def __init__(
        self,
        A: NDArray[np.float64],
        aim: NDArray[np.float64],
        W: NDArray[np.float64],
        unit: NDArray[np.float64],
        status: NDArray[np.intc],
        rounds: NDArray[np.intc],
        factors: NDArray[np.float64],
        usable: NDArray[np.uint8],
        always: NDArray[np.intp],
        orders: NDArray[np.intp],
        roomy: int,
        positive: bool,
        most: int,
    ) -> None: ...
    def begin(self, at: NDArray[np.intp], values: NDArray[np.float64], status: NDArray[np.intc]) -> None: ...
    def follow(self, theta: float, theta_entry: float, share: float) -> None: ...
    def go(self, states: list[ActiveSet], go_on: int, max_rounds: int = 0) -> bool: ...
    def chain(self) -> tuple[list[int], int]: ...
    def stage(
        self, p: int
    ) -> tuple[NDArray[np.intp], NDArray[np.float64], NDArray[np.intp], float, NDArray[np.intc]]: ...
    def __len__(self) -> int: ...
