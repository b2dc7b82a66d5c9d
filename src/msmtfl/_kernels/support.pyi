import numpy as np
from numpy.typing import NDArray

class Support:
    def __init__(
        self,
        Q: NDArray[np.float64],
        c: NDArray[np.float64],
        root: NDArray[np.float64],
        size: int,
        order: int,
        positive: bool,
    ) -> None: ...

def use_registers(width: int) -> int: ...
