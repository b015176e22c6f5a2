"""What is installed is what is in the repository: packages, links, presets, extras, lock."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent
BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.fixture(scope="module")
def lock() -> ModuleType:
    spec = importlib.util.spec_from_file_location("lock", ROOT / ".ci" / "lock.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_lock_agrees_with_pyproject(lock: ModuleType) -> None:
    assert lock.problems((ROOT / "requirements.lock").read_text()) == []


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda text: text.replace("sha256:", "sha256:0", 1), "older than the dependencies"),
        (lambda text: re.sub(r"^keras==\S+", "keras==3.14.0", text, flags=re.M), "keras~=3.15"),
        (lambda text: re.sub(r"^numpy==\S+", "numpi==2.0", text, flags=re.M), "numpy"),
        (lambda text: "--extra-index-url x\n" + text, "address or an option"),
        (lambda text: text + "thing @ file:///wheels/thing.whl\n", "address or an option"),
        (lambda text: text + "thing==1.0\n", "no hash"),
    ],
)
def test_a_lock_that_does_not_agree_is_noticed(
    lock: ModuleType, change: object, problem: str
) -> None:
    text = change((ROOT / "requirements.lock").read_text())  # type: ignore[operator]
    assert any(problem in line for line in lock.problems(text))


def test_every_folder_with_python_files_is_a_listed_package() -> None:
    listed = set(PROJECT["tool"]["setuptools"]["packages"])
    folders = {path.parent for path in (ROOT / "glomo_tf").rglob("*.py")}
    for link in ("layers", "recipes"):
        folders |= {
            ROOT / "glomo_tf" / path.parent.relative_to(ROOT)
            for path in (ROOT / link).rglob("*.py")
        }
    found = {".".join(folder.relative_to(ROOT).parts) for folder in folders}
    assert found | {"glomo_tf.saved_models"} == listed


def test_every_listed_package_but_the_presets_says_that_it_is_one() -> None:
    for name in PROJECT["tool"]["setuptools"]["packages"]:
        if name != "glomo_tf.saved_models":
            assert (ROOT / name.replace(".", "/") / "__init__.py").is_file(), name


def test_links_point_to_the_folders_at_the_top() -> None:
    for name in ("layers", "recipes", "saved_models"):
        assert (ROOT / "glomo_tf" / name).resolve() == ROOT / name


def test_extras_are_those_of_the_design() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    assert set(extras) == {"text", "data", "tune", "viz", "serving", "gpu", "all", "dev"}
    assert extras["all"] == ["glomo-tf[text,data,tune,viz,serving]"]


def test_one_version() -> None:
    import glomo_tf

    assert glomo_tf.__version__ == PROJECT["project"]["version"]
    changes = (ROOT / "CHANGELOG.md").read_text()
    assert "## [Unreleased]" in changes


def test_the_doctor_knows_every_extra_and_the_tested_keras() -> None:
    from glomo_tf import doctor

    extras = set(PROJECT["project"]["optional-dependencies"]) - {"gpu", "all", "dev"}
    assert set(doctor.EXTRAS) == extras
    assert f"keras~={doctor.KERAS}.0" in PROJECT["project"]["dependencies"]


def test_nothing_tells_where_it_was_made() -> None:
    """No path of a machine and no address of a package index in what is installed from."""
    for name in ("requirements.lock", "pyproject.toml", "Makefile", ".ci/run", ".ci/lock.py"):
        text = (ROOT / name).read_text()
        assert not re.search(r"index-url\b.*http|file://|/(work|root|home)/", text), name


def test_the_wheel_holds_the_real_files(tmp_path: Path) -> None:
    """Built from the tree as it is: the links have become folders, presets and marks are inside."""
    done = subprocess.run(
        [sys.executable, "-c", BUILD, str(tmp_path / "dist")],
        cwd=_copy(tmp_path / "tree"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    tracked = subprocess.run(
        ["git", "ls-files", "glomo_tf", "layers", "recipes", "saved_models"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    links = {"glomo_tf/layers", "glomo_tf/recipes", "glomo_tf/saved_models"}
    wanted = {
        path if path.startswith("glomo_tf/") else f"glomo_tf/{path}"
        for path in tracked
        if path not in links and not Path(path).name.startswith(".")
    }
    assert wanted <= names, sorted(wanted - names)
    assert not [name for name in names if name.startswith(("tests/", "layers/", "recipes/"))]


def _copy(target: Path) -> Path:
    """The tracked and new files, without what building would leave in the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\0")
    for name in filter(None, listed):
        source = ROOT / name
        if source.exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target / name, follow_symlinks=False)
    return target
