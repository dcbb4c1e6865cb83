"""Builds the front end with npm and ships it as data files; all metadata is in pyproject.toml.

``JUPYTER_AHP_SKIP_JS=1`` takes the front end as it is, or none.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

os.chdir(Path(__file__).resolve().parent)
SOURCE = Path("labextension")
BUILT = Path("jupyter_ext/labextension")
DESTINATION = "share/jupyter/labextensions/jupyter-ahp"
CONFIG = ("etc/jupyter/jupyter_server_config.d", ["jupyter_ext/server/config/jupyter_ext.json"])


def inputs() -> Iterator[Path]:
    """The files that the front end is built from."""
    for folder in ("src", "style", "schema"):
        yield from (path for path in (SOURCE / folder).rglob("*") if path.is_file())
    yield from (SOURCE / name for name in ("package.json", "package-lock.json", "tsconfig.json"))


def is_stale() -> bool:
    """Whether the front end must be built; an sdist brings it built."""
    if not any(BUILT.glob("static/remoteEntry.*.js")):
        return True
    built_at = (BUILT / "package.json").stat().st_mtime
    return Path(".git").exists() and any(path.stat().st_mtime > built_at for path in inputs())


def ensure_labextension(distribution: Distribution) -> None:
    """Build the front end where it is missing or stale, and name its files as data files."""
    if os.environ.get("JUPYTER_AHP_SKIP_JS") != "1" and is_stale():
        npm = shutil.which("npm")
        if npm is None:
            raise SystemExit("Node.js >= 20.19 with npm is needed to build the front end")
        lock, installed = SOURCE / "package-lock.json", SOURCE / "node_modules/.package-lock.json"
        if not installed.exists() or lock.stat().st_mtime > installed.stat().st_mtime:
            subprocess.check_call([npm, "ci"], cwd=SOURCE)
        # First, so that neither a build that fails nor one with other names leaves files of an earlier one to be shipped.
        shutil.rmtree(BUILT, ignore_errors=True)
        subprocess.check_call([npm, "run", "build:prod"], cwd=SOURCE)
    distribution.data_files = data_files()


def data_files() -> list[tuple[str, list[str]]]:
    """What lands outside the package: the front end and the file that enables the server extension."""
    groups = {DESTINATION: ["labextension/install.json"]}
    for path in sorted(BUILT.rglob("*")):
        if path.is_file() and path.name != "build_log.json":  # it holds absolute paths
            folder = path.parent.relative_to(BUILT).as_posix()
            groups.setdefault(f"{DESTINATION}/{folder}".removesuffix("/."), []).append(path.as_posix())
    return [*groups.items(), CONFIG]


class BuildPy(build_py):
    """Builds the front end first."""

    def run(self) -> None:
        ensure_labextension(self.distribution)
        if not self.editable_mode:
            # pip builds in the tree: a module deleted since the last build would come back from there.
            shutil.rmtree(Path(self.build_lib) / "jupyter_ext", ignore_errors=True)
        super().run()


class SDist(sdist):
    """Builds the front end first, so that an sdist installs without Node."""

    def run(self) -> None:
        ensure_labextension(self.distribution)
        super().run()


class WithDataFiles(Distribution):
    """A distribution whose data files survive ``pip install -e``."""

    def has_data(self) -> bool:
        """Answer editable_wheel, which asks for this before install_data and means `has_data_files`."""
        return bool(self.has_data_files())


setup(distclass=WithDataFiles, cmdclass={"build_py": BuildPy, "sdist": SDist}, data_files=data_files())
