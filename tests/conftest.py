"""Where the tests find data, and the option that runs them with the kernel as plain Python.

Tests on real data need MSMTFL_DATA, the folder of isolet.npz and its like; tests on reference answers need
MSMTFL_REFERENCE, by default the folder `reference` beside it. Without them these tests are skipped.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

if (
    "PYTEST_XDIST_WORKER" in os.environ
):  # the workers have all cores already: threads of theirs would wait for each other
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--uncompiled", action="store_true", help="run the kernel as plain Python (needs Cython)")
    parser.addoption("--all-cases", action="store_true", help="run all cases of tests that are marked `sampled`")


def pytest_configure(config: pytest.Config) -> None:
    if importlib.util.find_spec("hypothesis") is not None:
        from hypothesis import settings

        # the same cases in every run; `make fuzz` and --hypothesis-seed look at others
        settings.register_profile("fixed", derandomize=config.getoption("hypothesis_seed", None) is None)
        settings.load_profile("fixed")
    if config.getoption("--uncompiled"):
        _load_uncompiled_kernel()
    # With workers the first warning of the package's own would import it here, in a thread for each worker: at once they
    # find it half imported.
    package = importlib.import_module("msmtfl")
    for name in package.__all__:  # each is imported when it is asked for
        getattr(package, name)


class _KernelSources:
    """Finds the sources of kernels, wherever they are imported from; their compiled modules are never loaded."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        package, _, module = name.rpartition(".")
        source = self.folder / f"{module}.py"
        if package != "msmtfl._kernels" or not source.exists():
            return None
        return importlib.util.spec_from_file_location(name, source)


def _load_uncompiled_kernel() -> None:
    """Have imports look for the kernels' sources first."""
    if "msmtfl" in sys.modules:
        raise pytest.UsageError("--uncompiled: msmtfl is already imported")
    package = importlib.util.find_spec("msmtfl")
    if package is None or package.origin is None:
        raise pytest.UsageError("--uncompiled: msmtfl is not installed")
    sys.meta_path.insert(0, _KernelSources(Path(package.origin).parent / "_kernels"))


def _folder(variable: str) -> Path | None:
    path = os.environ.get(variable)
    return Path(path) if path and Path(path).is_dir() else None


def _reference_files() -> list[Path]:
    data, reference = _folder("MSMTFL_DATA"), _folder("MSMTFL_REFERENCE")
    if reference is None and data is not None:
        reference = data.resolve().parent / "reference"
    return sorted(reference.glob("*.npz")) if reference is not None else []


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests marked `timed` have a second try; of one marked `sampled(k)` one case in k runs, unless all are asked for."""
    if config.pluginmanager.hasplugin("rerunfailures"):
        for item in items:
            if item.get_closest_marker("timed") is not None:
                item.add_marker(pytest.mark.flaky(reruns=1))
    if config.getoption("--all-cases"):
        return
    seen: dict[object, int] = {}
    kept, left = [], []
    for item in items:
        mark = item.get_closest_marker("sampled")
        test = (item.parent, getattr(item, "originalname", item.name))
        place = seen[test] = seen.get(test, -1) + 1
        (kept if mark is None or place % mark.args[0] == 0 else left).append(item)
    config.hook.pytest_deselected(items=left)
    items[:] = kept


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that asks for `reference` runs once per file of the reference folder."""
    if "reference" in metafunc.fixturenames:
        absent = pytest.mark.skip(reason="no reference answers: set MSMTFL_DATA or MSMTFL_REFERENCE")
        files = [pytest.param(file, id=file.stem) for file in _reference_files()]
        metafunc.parametrize("reference", files or [pytest.param(None, marks=absent, id="absent")], indirect=True)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress is drawn as on a terminal."""
    monkeypatch.setattr("msmtfl._runtime.progress._redraws", lambda stream: True)


@pytest.fixture
def reference(request: pytest.FixtureRequest) -> dict[str, np.ndarray]:
    """One problem with its answers."""
    with np.load(request.param) as stored:
        return dict(stored)


@pytest.fixture(scope="session")
def isolet() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X, y, task of a random quarter of each Isolet task."""
    folder = _folder("MSMTFL_DATA")
    if folder is None or not (folder / "isolet.npz").exists():
        pytest.skip("no real data: set MSMTFL_DATA to the folder of isolet.npz")
    with np.load(folder / "isolet.npz") as stored:
        X, y, task = stored["X"].astype(np.float64), stored["y"], stored["task"]
    rng = np.random.default_rng(0)
    rows = np.concatenate([_quarter(np.flatnonzero(task == i), rng) for i in np.unique(task)])
    return X[rows], y[rows], task[rows]


def _quarter(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.permutation(rows)[: round(0.25 * len(rows))]
