"""The kernel's source is plain Python: the core tests pass with it uncompiled."""

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def test_core_tests_pass_uncompiled(request):
    if request.config.getoption("--uncompiled"):
        pytest.skip("the whole run is uncompiled")
    pytest.importorskip("cython")
    command = [sys.executable, "-m", "pytest", "--uncompiled", "-q", "-k", "not isolet and not paper and not honest"]
    files = [str(HERE / "test_lasso.py"), str(HERE / "test_stages.py")]
    run = subprocess.run([*command, *files], capture_output=True, text=True, timeout=120, cwd=HERE.parent, check=False)
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-1000:]
