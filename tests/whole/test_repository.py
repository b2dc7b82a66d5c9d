"""What a release needs: notes, a tag that fits, wheels for what is promised; and that importing the package is cheap."""

import ast
import json
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

import msmtfl

ROOT = Path(__file__).parents[2]
beside = pytest.mark.skipif(not (ROOT / "noxfile.py").exists(), reason="the repository is not beside the tests")


@pytest.fixture
def release_notes(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    import release_notes

    return release_notes


# ------------------------------------------------------------------ imports


def python(code):
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()


def test_importing_the_package_imports_neither_numpy_nor_scikit_learn():
    heavy = "{'numpy', 'scipy', 'sklearn', 'pandas', 'matplotlib', 'joblib'}"
    assert python(f"import sys, msmtfl; print(msmtfl.__version__, *({heavy} & set(sys.modules)))") == [
        msmtfl.__version__
    ]


@pytest.mark.slow
def test_an_estimator_imports_nothing_that_scikit_learn_does_not():
    """scikit-learn itself imports pandas where it is installed."""
    ours = "sorted({name.split('.')[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names))"
    begin = "import sys, sklearn.linear_model, sklearn.model_selection; before = set(sys.modules)"
    assert python(f"{begin}; from msmtfl import MSMTFLCV; print(*{ours})") == ["msmtfl"]


def test_public_names_are_the_same_for_readers_type_checkers_and_imports():
    tree = ast.parse(Path(msmtfl.__file__).read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If) and isinstance(node.test, ast.Name))
    typed = {alias.name: node.module for node in block.body for alias in node.names}
    assert typed == msmtfl._MODULES
    assert sorted(typed) == sorted(msmtfl.__all__)
    for name in msmtfl.__all__:
        assert getattr(msmtfl, name).__name__ == name
        assert name in dir(msmtfl)


@pytest.mark.slow
def test_public_modules_are_found_without_being_imported():
    modules = python("import msmtfl; print(*(getattr(msmtfl, name).__name__ for name in msmtfl._PUBLIC_MODULES))")
    assert modules == [f"msmtfl.{name}" for name in msmtfl._PUBLIC_MODULES]


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'msmtfl' has no attribute 'Msmtfl'"):
        msmtfl.Msmtfl  # noqa: B018


@beside
def test_what_commands_write_is_not_in_the_repository():
    found = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if found.returncode:
        pytest.skip("not a git repository")
    made = {".html", ".msmtfl", ".csv", ".parquet", ".xlsx", ".docx", ".pdf"}
    assert [name for name in found.stdout.splitlines() if "/" not in name and Path(name).suffix in made] == []


# ------------------------------------------------------------------ releases


@beside
def test_notes_are_the_section_of_the_version(release_notes):
    changelog = "# Changelog\n\n## 0.10.0 (2030-01-02)\n\n- new\n\n## 0.1.0 (2029-01-02)\n\n- old\n"
    assert release_notes.section(changelog, "0.1.0") == ("0.1.0 (2029-01-02)", "- old")
    assert release_notes.section(changelog, "0.10.0") == ("0.10.0 (2030-01-02)", "- new")
    with pytest.raises(SystemExit, match=r"no section for 0\.2\.0"):
        release_notes.section(changelog, "0.2.0")


@beside
@pytest.mark.parametrize(
    ("tag", "title", "refused"),
    [
        ("v1.2.0", "1.2.0 (2030-01-02)", None),
        ("v1.3.0", "1.2.0 (2030-01-02)", "has to be v1.2.0"),
        ("1.2.0", "1.2.0 (2030-01-02)", "has to be v1.2.0"),
        ("v1.2.0", "1.2.0 (unreleased)", "not '1.2.0 "),
    ],
)
def test_a_tag_is_released_only_with_a_dated_section(release_notes, tag, title, refused):
    changelog = f"# Changelog\n\n## {title}\n\n- text\n"
    if refused is None:
        release_notes.check(tag, changelog, "1.2.0")
    else:
        with pytest.raises(SystemExit, match=refused):
            release_notes.check(tag, changelog, "1.2.0")


@beside
def test_pythons_are_the_same_in_classifiers_sessions_and_wheels():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    classifiers = re.findall(r"Python :: (3\.\d+)", "\n".join(project["project"]["classifiers"]))
    sessions = re.findall(r"PYTHONS = \[(.*)\]", (ROOT / "noxfile.py").read_text(encoding="utf-8"))[0]
    wheels = re.findall(r"cp3(\d+)-", project["tool"]["cibuildwheel"]["build"])
    assert classifiers == re.findall(r"3\.\d+", sessions) == [f"3.{minor}" for minor in wheels]
    assert project["project"]["requires-python"] == f">={classifiers[0]}"


@beside
def test_workflows_run_nothing_that_cannot_be_run_here():
    """Every command of a workflow is a target of the Makefile or a session of nox, but the one that drafts the release."""
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    sessions = set(re.findall(r"^def (\w+)\(session", (ROOT / "noxfile.py").read_text(encoding="utf-8"), re.MULTILINE))
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        text = path.read_text(encoding="utf-8")
        for command in re.findall(r"run: (.+)", text):
            if found := re.match(r"make ([\w-]+)", command):
                assert found[1] in targets
            elif found := re.match(r"pipx run nox .*-s ([a-z]\w+)", command):
                assert found[1] in sessions
            elif "$SESSION" in command:
                assert set(re.findall(r"session: (\w+)", text)) <= sessions
            elif "$TARGET" in command:
                assert set(re.findall(r"target: \[(.+)\]", text)[0].split(", ")) <= targets
            else:
                assert command.startswith("gh release create")
        for action in re.findall(r"uses: (\S+)", text):
            assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action), f"{path.name}: {action} is not pinned by its hash"


@beside
def test_every_kernel_is_tried_in_wheels_and_says_that_it_does_without_the_global_lock():
    meson = (ROOT / "src" / "msmtfl" / "_kernels" / "meson.build").read_text(encoding="utf-8")
    kernels = re.findall(r"'(\w+)'", re.search(r"^kernels = \[(.*)\]", meson, flags=re.MULTILINE)[1])
    tried = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["cibuildwheel"]["test-command"]
    assert re.search(r"names = '(.*)'\.split", tried[0])[1].split() == kernels
    for name in kernels:
        source = (ROOT / "src" / "msmtfl" / "_kernels" / f"{name}.py").read_text(encoding="utf-8")
        assert "freethreading_compatible=True" in source.split('"""')[0]


@beside
@pytest.mark.slow
def test_what_was_compiled_beside_the_kernels_is_not_installed(tmp_path):
    """A stale module in the folder would be packed after the new one, and so be the one that is installed."""
    if shutil.which("meson") is None or shutil.which("cython") is None:
        pytest.skip("meson and Cython are not on the path")
    shutil.copy(ROOT / "meson.build", tmp_path)
    shutil.copytree(
        ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "*.so", "*.pyd", "*.c")
    )
    kernels = tmp_path / "src" / "msmtfl" / "_kernels"
    sources = {path.name for path in kernels.iterdir() if path.suffix in (".py", ".pyi")}
    stale = "support" + EXTENSION_SUFFIXES[0]
    for name in (stale, "support.c"):
        (kernels / name).write_text("old", encoding="utf-8")
    made = subprocess.run(["meson", "setup", "build"], cwd=tmp_path, capture_output=True, text=True)
    assert made.returncode == 0, made.stdout
    plan = json.loads((tmp_path / "build" / "meson-info" / "intro-install_plan.json").read_text(encoding="utf-8"))
    (folder,) = plan["install_subdirs"].values()
    assert "_kernels" in folder["exclude_dirs"]
    assert {Path(name).name for name in plan["python"]} == sources
    assert stale in {Path(name).name for name in plan["targets"]}


@beside
def test_memory_views_are_compiled_once_and_do_without_the_global_lock():
    """Cython writes them into every kernel unless it is told where they are: 0.5 MB more in a wheel."""
    meson = (ROOT / "src" / "msmtfl" / "_kernels" / "meson.build").read_text(encoding="utf-8")
    commands = re.findall(r"command: \[cython, (.*)\]", meson)
    assert len(commands) == 2
    generate, kernel = sorted(commands, key=lambda command: "--shared" in command)
    assert "freethreading_compatible=True" in generate
    assert "--generate-shared" in generate
    assert "'--shared', shared" in kernel
