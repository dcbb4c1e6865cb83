"""The rules of the house that no linter holds by itself: layers, test modules, exports, who prints."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "jupyter_ext"
MODULES = {path.relative_to(PACKAGE).as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}

# Modules whose test module has another name than their own.
TESTED_BY = {"__init__.py": "test_packaging.py", "_version.py": "test_packaging.py"}


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def definitions(module: ast.Module) -> set[str]:
    """Public functions and classes of a module."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {node.name for node in module.body if isinstance(node, kinds) and not node.name.startswith("_")}


def own_imports(module: ast.Module) -> set[str]:
    """Public names that a module imports from its own package, as it comes to be imported."""
    return {
        alias.asname or alias.name
        for node in module.body
        if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").startswith("jupyter_ext"))
        for alias in node.names
        if not (alias.asname or alias.name).startswith("_")
    }


def exports(module: ast.Module) -> list[str] | None:
    """The names written out in ``__all__``; None where there is none."""
    for node in module.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            return [part.value for part in ast.walk(node.value) if isinstance(part, ast.Constant)]
    return None


def expected_test(name: str) -> Path:
    """The test module of a module: its path with ``test_`` before the name; a package counts as a module of its name."""
    path = Path(name)
    if path.name == "__init__.py" and name not in TESTED_BY:
        path = path.parent.with_suffix(".py")
    return ROOT / "tests" / path.with_name(TESTED_BY.get(name, f"test_{path.name}"))


def test_the_layer_contracts_are_kept() -> None:
    run = "from importlinter.cli import lint_imports; raise SystemExit(lint_imports(no_cache=True))"
    done = subprocess.run([sys.executable, "-c", run], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", MODULES)
def test_a_module_has_its_test_module(name: str) -> None:
    if name.endswith("__init__.py") and name not in TESTED_BY and not definitions(tree(MODULES[name])):
        return  # a package that only says what it is, or passes names on
    assert expected_test(name).is_file()


@pytest.mark.parametrize("name", [name for name in MODULES if name.endswith("__init__.py")])
def test_a_package_exports_all_that_it_passes_on(name: str) -> None:
    module = tree(MODULES[name])
    assert own_imports(module) <= set(exports(module) or [])


@pytest.mark.parametrize("name", MODULES)
def test_an_export_list_is_complete(name: str) -> None:
    module = tree(MODULES[name])
    names = exports(module)
    if names is None:
        return
    assert len(names) == len(set(names))
    assert definitions(module) <= set(names)


def calls(module: ast.Module, name: str) -> Iterator[int]:
    """The lines that call a function by a plain name."""
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
            yield node.lineno


@pytest.mark.parametrize("name", [name for name in MODULES if not name.startswith(("kernel/", "cli/"))])
def test_only_kernel_and_cli_print(name: str) -> None:
    assert list(calls(tree(MODULES[name]), "print")) == []


@pytest.mark.parametrize("name", [name for name in MODULES if not name.startswith("server/")])
def test_only_server_knows_http_errors(name: str) -> None:
    named = {node.id for node in ast.walk(tree(MODULES[name])) if isinstance(node, ast.Name)}
    assert "HTTPError" not in named
