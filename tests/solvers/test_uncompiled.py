"""The kernels' sources are plain Python: the core tests pass with them uncompiled."""

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


PARTS = {  # what takes seconds and, together, reaches nine tenths of the kernels' lines and branches (make coverage-kernels)
    "lassos": (
        "asked_for or equals_fista or nnls or one_by_one or copies or block_descent",
        ["test_weighted_lasso.py", "test_stages.py"],
    ),
    "demand": ("on_demand or bits or make_room", ["test_weighted_lasso.py", "test_task_solver.py"]),
    "ridges": ("falling and 30-5 and whole", ["test_ridge_paths.py"]),
    "losses": (
        "steps_in_the_kernel or cannot_settle or a_ridge_alone or separated_classes or weights_may_differ",
        ["test_losses.py"],
    ),
    "surfaces": ("plain_walk and positive or all_reasons", ["../paths/test_stage_loop.py"]),
    "common": ("factor or nearest or not_end or its_bound or a_search_finds", ["test_arrow.py"]),
    "rows": (
        "minimised_exactly or closed_form or copies or lasso or on_a_pattern or a_pattern or on_demand or had_to_go",
        ["test_coupled_rows.py"],
    ),
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
