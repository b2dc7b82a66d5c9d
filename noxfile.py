#!/usr/bin/env -S uv run --script
# /// script
# dependencies = ["nox>=2025.2.9"]
# ///
"""Sessions for machines without make (Windows) and for other Pythons; they run the commands of the Makefile.

nox -s tests-3.13                # the tests under a Python
nox -s oldest                    # with the oldest dependencies that pyproject.toml allows
nox -s prereleases               # with the newest ones, not yet released too
nox -s mutants -- --count 40     # would the tests notice faults?
nox -s interop                   # inside MLflow, ONNX Runtime, DuckDB, MAPIE, SHAP
nox -s tests-3.13 -- tests/data  # what follows -- goes to pytest
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "virtualenv"
nox.options.error_on_missing_interpreters = False

PYTHONS = ["3.11", "3.12", "3.13", "3.14", "3.15"]
FREE_THREADED = ["3.14t"]
THREADED = "tests/runtime/test_concurrent_fits.py"
INTEROP = "tests/whole/test_interoperability.py"
PROJECT = tomllib.loads(Path(__file__).with_name("pyproject.toml").read_text(encoding="utf-8"))


def lower_bounds(requirements: list[str]) -> list[str]:
    """`numpy>=1.26` as `numpy==1.26.*`: the oldest series that is allowed."""
    out = []
    for one in requirements:
        found = re.fullmatch(r"([\w.-]+)(\[[\w,-]+\])?>=([\d.]+)", one)
        if found and found[1] != PROJECT["project"]["name"]:
            out.append(f"{found[1]}=={found[3]}.*")
    return out


def install(session: nox.Session, *groups: str, extras: str = "all", options: tuple[str, ...] = ()) -> None:
    session.install("--upgrade", "pip")
    session.install(f".[{extras}]" if extras else ".", *options)
    for group in groups:
        session.install("--group", group, *options)


@nox.session(python=PYTHONS, default=True)
def tests(session: nox.Session) -> None:
    """The tests, as make test runs them."""
    install(session, "test")
    session.run("python", "-m", "pytest", "-n", "auto", *session.posargs)


@nox.session(python=FREE_THREADED, default=False)
def threads(session: nox.Session) -> None:
    """Fits on many threads under a Python without the global lock, with nothing but what the package needs."""
    install(session, extras="")
    session.install("pytest>=8", "hypothesis>=6.100")
    session.run("python", "-X", "gil=0", "-m", "pytest", "-m", "slow or not slow", *(session.posargs or [THREADED]))


@nox.session(python=PYTHONS[0], default=False)
def oldest(session: nox.Session) -> None:
    """The tests with the oldest dependencies that pyproject.toml allows (those of the core; others as they come)."""
    bounds = Path(session.create_tmp()) / "oldest.txt"
    lines = [*lower_bounds(PROJECT["project"]["dependencies"]), "pytest==8.*"]  # scikit-learn 1.6 warns under pytest 9
    bounds.write_text("\n".join(lines) + "\n", encoding="utf-8")
    install(session, "test", extras="cli,plots", options=("--constraint", str(bounds.resolve())))
    session.run("python", "-m", "pytest", "-n", "auto", *session.posargs)


@nox.session(python=PYTHONS[-1], default=False)
def prereleases(session: nox.Session) -> None:
    """The tests with the newest dependencies, not yet released too."""
    install(session, "test", options=("--pre", "--upgrade", "--upgrade-strategy", "eager"))
    session.run("python", "-m", "pytest", "-n", "auto", *session.posargs)


@nox.session(python=PYTHONS[2], default=False)
def interop(session: nox.Session) -> None:
    """Models inside other packages: MLflow, ONNX Runtime, DuckDB, MAPIE, SHAP; PostgreSQL if MSMTFL_POSTGRES is set."""
    install(session, "interop")
    session.run("python", "-m", "pytest", "-m", "slow or not slow", *(session.posargs or [INTEROP]))


@nox.session(python=PYTHONS[2], default=False)
def mutants(session: nox.Session) -> None:
    """Would the tests notice a fault? Hours; see benchmarks/studies/mutants.py for parts of it."""
    install(session, "test", "mutants")
    session.run("python", "benchmarks/studies/mutants.py", *session.posargs)


def make(session: nox.Session, target: str) -> None:
    """A target of the Makefile, in an environment that nox made."""
    session.run("make", target, f"VENV={session.virtualenv.location}/made", external=True)


@nox.session(default=True)
def lint(session: nox.Session) -> None:
    """Style, types, layering and docstrings: make lint."""
    make(session, "lint")


@nox.session(default=False)
def docs(session: nox.Session) -> None:
    """The documentation: make docs."""
    make(session, "docs")


@nox.session(default=False)
def coverage(session: nox.Session) -> None:
    """Which lines the tests reach: make coverage."""
    make(session, "coverage")


@nox.session(default=False)
def wheels(session: nox.Session) -> None:
    """Wheels for this system, each tried after it is built; on Linux in containers (docker or podman)."""
    session.install("--upgrade", "pip")
    session.install("--group", "wheels")
    session.run("python", "-m", "cibuildwheel", "--output-dir", "dist", *session.posargs)


if __name__ == "__main__":
    nox.main()
