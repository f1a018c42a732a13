"""`__all__` is the contract: what a package shows is listed there once, and nothing else is public."""

import importlib
import inspect
from types import ModuleType

import pytest

PACKAGES = ["rvcore", "berm"]


def public_names(module: ModuleType) -> set[str]:
    return {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and not inspect.ismodule(value) and name != "annotations"
    }


@pytest.fixture(params=PACKAGES)
def package(request):
    return importlib.import_module(request.param)


def test_every_public_name_is_in_all(package):
    assert public_names(package) - set(package.__all__) == set()


def test_all_names_exist_and_stand_once(package):
    assert [name for name in package.__all__ if not hasattr(package, name)] == []
    assert sorted(set(package.__all__)) == sorted(package.__all__)


def test_no_object_is_exported_under_two_names(package):
    # berm.BermError is rvcore.Error, by design: one root for everything that a caller can catch.
    classes = [getattr(package, name) for name in package.__all__ if inspect.isclass(getattr(package, name))]
    assert len(classes) == len(set(classes))


def test_every_export_has_a_docstring(package):
    undocumented = [
        name
        for name in package.__all__
        if (inspect.isclass(value := getattr(package, name)) or inspect.isroutine(value))
        and not (value.__doc__ or "").strip()
    ]
    assert undocumented == []


def test_one_exception_root_covers_everything_a_caller_can_see():
    import berm
    import rvcore

    assert berm.BermError is rvcore.Error
    raised = [
        value
        for module in (rvcore, berm)
        for name in module.__all__
        if inspect.isclass(value := getattr(module, name)) and issubclass(value, Exception)
    ]
    # Refused is what a capability raises to its guest; no caller of a harness ever sees it.
    assert [error for error in raised if not issubclass(error, rvcore.Error)] in ([], [berm.Refused])
