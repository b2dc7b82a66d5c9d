"""The kernels' sources are plain Python: the core tests pass with them uncompiled."""

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


PARTS = {
    "lassos": (
        "asked_for or equals_fista or nnls or one_by_one or copies or block_descent",
        ["test_weighted_lasso.py", "test_stages.py"],
    ),
    "losses": ("steps_in_the_kernel and not weighted", ["test_losses.py"]),
    "surfaces": ("plain_walk and positive", ["../paths/test_stage_loop.py"]),
    "common": ("factor or nearest or not_end", ["test_arrow.py"]),
    "rows": ("minimised_exactly or closed_form or copies or lasso", ["test_coupled_rows.py"]),
}


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_core_tests_pass_uncompiled(request, part):
    if request.config.getoption("--uncompiled"):
        pytest.skip("the whole run is uncompiled")
    pytest.importorskip("cython")
    chosen, files = PARTS[part]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--uncompiled",
        "-q",
        "-k",
        chosen,
        *(str(HERE / file) for file in files),
    ]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=HERE.parents[1], check=False)
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-1000:]
