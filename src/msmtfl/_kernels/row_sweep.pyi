import numpy as np
from numpy.typing import NDArray

GROUP: int
DIRTY: int
PATTERN: dict[str, int]

def sweep(
    norm: int,
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    kappa: NDArray[np.float64],
    Q: NDArray[np.float64],
    which: NDArray[np.intc],
    H: NDArray[np.float64],
    F: NDArray[np.float64],
    G: NDArray[np.float64],
    W: NDArray[np.float64],
    T: NDArray[np.float64],
    kinds: NDArray[np.uint8],
    scratch: NDArray[np.float64],
    past: NDArray[np.float64],
    C: NDArray[np.float64],
    epochs: int,
    stop: float,
) -> tuple[int, float]: ...
def eliminate(
    kappa: NDArray[np.float64],
    Q: NDArray[np.float64],
    which: NDArray[np.intc],
    rows: NDArray[np.intp],
    S: NDArray[np.float64],
    free: NDArray[np.uint8],
    rest: NDArray[np.float64],
    heights: NDArray[np.float64],
    slot: NDArray[np.intp],
    M: NDArray[np.float64],
    right: NDArray[np.float64],
    room: NDArray[np.float64],
    index: NDArray[np.intp],
) -> bool: ...
def substitute(
    S: NDArray[np.float64],
    free: NDArray[np.uint8],
    slot: NDArray[np.intp],
    levels: NDArray[np.float64],
    room: NDArray[np.float64],
    index: NDArray[np.intp],
    out: NDArray[np.float64],
) -> None: ...
def compact(Q: NDArray[np.float64], kept: NDArray[np.intp]) -> None: ...
def extend(Q: NDArray[np.float64], rows: NDArray[np.intp], first: int, out: NDArray[np.float64]) -> None: ...
def add_between(block: NDArray[np.float64], rows: NDArray[np.intp], out: NDArray[np.float64]) -> None: ...
def subtract(
    Q: NDArray[np.float64], rows: NDArray[np.intp], weights: NDArray[np.float64], out: NDArray[np.float64]
) -> None: ...
def excess(
    norm: int,
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    F: NDArray[np.float64],
    G: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None: ...
