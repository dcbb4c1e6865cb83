"""What a wheel and an sdist hold, the one version, and that importing the package is cheap."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import jupyter_ext
from jupyter_ext._version import __version__

ROOT = Path(__file__).parents[1]
SHARE = "share/jupyter/labextensions/jupyter-ahp/"
CONFIG = "etc/jupyter/jupyter_server_config.d/jupyter_ext.json"


# --- version and import -------------------------------------------------------------------------------------------------


def test_the_front_end_has_the_packages_version() -> None:
    assert json.loads((ROOT / "labextension/package.json").read_text())["version"] == __version__
    lock = json.loads((ROOT / "labextension/package-lock.json").read_text())
    assert lock["version"] == lock["packages"][""]["version"] == __version__


def test_the_lock_file_names_no_registry() -> None:
    assert '"resolved"' not in (ROOT / "labextension/package-lock.json").read_text()


def test_the_package_tells_its_version() -> None:
    assert jupyter_ext.__version__ == __version__


def test_every_exported_name_is_there() -> None:
    for name in jupyter_ext.__all__:
        assert getattr(jupyter_ext, name) is not None
    assert set(jupyter_ext.__all__) <= set(dir(jupyter_ext))


def test_a_name_that_is_not_exported_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        jupyter_ext.no_such_name  # noqa: B018


def test_importing_the_package_imports_nothing_heavy(tmp_path: Path) -> None:
    code = "import sys; before = set(sys.modules); import jupyter_ext; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    imported = {name for name in done.stdout.split() if not name.startswith("jupyter_ext")}
    heavy = {"IPython", "asyncio", "ipykernel", "ipywidgets", "jupyter_server", "msgspec", "terminado", "tornado", "traitlets"}
    assert imported & heavy == set()


# --- wheel and sdist ----------------------------------------------------------------------------------------------------

Build = Callable[..., Path]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree, as a build leaves files in it. The front end is taken as built."""
    if not (ROOT / "jupyter_ext/labextension/package.json").exists():
        pytest.skip('the front end is not built here: pip install ".[test]" builds it')
    copy = tmp_path_factory.mktemp("source") / "jupyter-ahp"
    unwanted = shutil.ignore_patterns(".*_cache", ".git", ".hypothesis", ".venv", "__pycache__", "build", "lib", "node_modules")
    shutil.copytree(ROOT, copy, ignore=unwanted)
    return copy


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """``build(folder, "wheel")`` builds as pip does, without Node, and gives the file."""

    def run(folder: Path, kind: str) -> Path:
        out = tmp_path_factory.mktemp(kind)
        code = f"from setuptools import build_meta; build_meta.build_{kind}({str(out)!r})"
        env = {**os.environ, "PATH": str(out), "PYTHONPATH": str(folder)}
        done = subprocess.run([sys.executable, "-c", code], cwd=folder, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        (built,) = out.glob("*.whl" if kind != "sdist" else "*.tar.gz")
        return built

    return run


@pytest.fixture(scope="module")
def wheel(source: Path, build: Build) -> Path:
    return build(source, "wheel")


@pytest.fixture(scope="module")
def sdist(source: Path, build: Build) -> Path:
    return build(source, "sdist")


def names(archive: Path) -> set[str]:
    """The files in an archive; an sdist's without their top folder."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return {name for name in wheel.namelist() if not name.endswith("/")}
    with tarfile.open(archive) as sdist:
        return {member.name.partition("/")[2] for member in sdist if member.isfile()}


def in_tree(folder: str, *patterns: str) -> set[str]:
    paths = {path for pattern in patterns for path in (ROOT / folder).rglob(pattern) if path.is_file()}
    return {path.relative_to(ROOT).as_posix() for path in paths if "__pycache__" not in path.parts}


def test_a_wheel_holds_every_module_and_data_file_of_the_package(wheel: Path) -> None:
    package = {name for name in names(wheel) if name.startswith("jupyter_ext/")}
    expected = in_tree("jupyter_ext", "*.py", "py.typed") | in_tree("jupyter_ext/host/shells", "*")
    assert package == expected


def test_a_wheel_brings_the_front_end_and_enables_the_server_extension(wheel: Path) -> None:
    data = f"jupyter_ahp-{__version__}.data/data/"
    shipped = {name.removeprefix(data) for name in names(wheel) if name.startswith(data)}
    built = {
        SHARE + path.removeprefix("jupyter_ext/labextension/")
        for path in in_tree("jupyter_ext/labextension", "*")
        if not path.endswith("build_log.json")
    }
    assert shipped == built | {CONFIG, SHARE + "install.json"}
    assert any(re.fullmatch(SHARE + r"static/remoteEntry\.\w+\.js", name) for name in shipped)
    with zipfile.ZipFile(wheel) as archive:
        config = json.loads(archive.read(data + CONFIG))
    assert config == {"ServerApp": {"jpserver_extensions": {"jupyter_ext": True}}}


def test_an_sdist_holds_the_source_of_the_front_end_and_the_built_one(sdist: Path) -> None:
    held = names(sdist)
    assert {"pyproject.toml", "setup.py", "LICENSE", "README.md", "CHANGELOG.md"} <= held
    assert in_tree("labextension/src", "*") | in_tree("labextension/style", "*") <= held
    assert {"labextension/package.json", "labextension/package-lock.json", "labextension/tsconfig.json"} <= held
    assert "jupyter_ext/labextension/package.json" in held
    assert not [name for name in held if name.startswith(("tests/", "notebooks/")) or "node_modules" in name]


def test_an_sdist_gives_the_same_wheel_without_node(sdist: Path, wheel: Path, build: Build, tmp_path: Path) -> None:
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    (folder,) = tmp_path.iterdir()
    assert names(build(folder, "wheel")) == names(wheel)


def test_an_editable_install_has_the_data_files_too(source: Path, wheel: Path, build: Build) -> None:
    data = f"jupyter_ahp-{__version__}.data/"
    in_wheel = {name for name in names(wheel) if name.startswith(data)}
    assert {name for name in names(build(source, "editable")) if name.startswith(data)} == in_wheel


def test_a_deleted_module_does_not_come_back_in_the_next_wheel(source: Path, wheel: Path, build: Build) -> None:
    extra = source / "jupyter_ext/extra.py"
    extra.touch()
    assert "jupyter_ext/extra.py" in names(build(source, "wheel"))
    extra.unlink()
    assert names(build(source, "wheel")) == names(wheel)
