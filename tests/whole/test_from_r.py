"""The page for R users runs, where R is installed with reticulate and glmnet."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import msmtfl

PAGE = Path(__file__).parents[2] / "docs" / "from_r.md"
HAS = 'all(sapply(c("reticulate", "glmnet"), requireNamespace, quietly = TRUE))'
CAN = f'cat({HAS} && packageVersion("reticulate") >= "OLDEST")'


def rscript(code, folder):
    run = [shutil.which("Rscript"), "-e", code]
    return subprocess.run(run, capture_output=True, text=True, cwd=folder, timeout=300)


@pytest.mark.slow
@pytest.mark.skipif(not PAGE.exists(), reason="the documentation is not beside the tests")
def test_the_page_runs_and_glmnet_agrees(tmp_path, monkeypatch):
    if shutil.which("Rscript") is None:
        pytest.skip("R is not installed")
    oldest = "1.35" if int(np.__version__.split(".")[0]) > 1 else "1.28"
    if not rscript(CAN.replace("OLDEST", oldest), tmp_path).stdout.endswith("TRUE"):
        pytest.skip(f"reticulate {oldest} or newer and glmnet are not installed")
    monkeypatch.setenv("PYTHONPATH", str(Path(msmtfl.__file__).parents[1]))
    code = re.search(r"```r\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)[1]
    done = rscript(code.replace("path/to/python", sys.executable), tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(re.search(r"```text\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)[1])
    assert "solved" in done.stdout
    assert float(done.stdout.split()[-1]) < 1e-7
