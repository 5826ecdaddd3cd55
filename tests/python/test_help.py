"""help() is the manual: all public names have a docstring, and all functions have types."""

import inspect
import pydoc
import subprocess
import sys

import pytest

import caffe
import crema

pytest.importorskip("google.protobuf")

CONSTANTS = {"TEST", "TRAIN", "__version__"}


def things(package):
    """(name, object) of all public names of a package, and of the members of its classes."""
    for name in package.__all__:
        if name in CONSTANTS:
            continue
        thing = getattr(package, name)
        yield f"{package.__name__}.{name}", thing
        if not inspect.isclass(thing):
            continue
        for kind in thing.__mro__:
            if kind.__module__.partition(".")[0] not in ("crema", "caffe"):
                continue
            for member, value in vars(kind).items():
                if not member.startswith("_"):
                    yield f"{package.__name__}.{name}.{member}", value


def documented(package):
    made = {}
    for name, thing in things(package):
        if isinstance(thing, (str, int, type(None))) and not inspect.isclass(thing):
            continue  # a value
        made.setdefault(name, []).append(thing)
    return made


def manual_of(thing):
    """The docstring. That of a function of nanobind has its signature besides, which is none."""
    function = thing.fget if isinstance(thing, property) else thing
    overloads = getattr(function, "__nb_signature__", None)
    if overloads is None:
        return (inspect.getdoc(thing) or "").strip()
    return " ".join(each[1] or "" for each in overloads).strip()


@pytest.mark.parametrize("package", [crema, caffe], ids=["crema", "caffe"])
def test_all_public_names_have_a_docstring(package):
    bare = [name for name, found in documented(package).items()
            if not any(manual_of(thing) for thing in found)]
    assert not bare, "without a docstring: " + ", ".join(bare)


def function_of(thing):
    if isinstance(thing, (classmethod, staticmethod)):
        return thing.__func__
    if isinstance(thing, property):
        return thing.fget
    if inspect.isclass(thing):
        return vars(thing).get("__init__")
    return thing


@pytest.mark.parametrize("package", [crema, caffe], ids=["crema", "caffe"])
def test_all_public_functions_have_types(package):
    bare = []
    for name, found in documented(package).items():
        for function in map(function_of, found):
            if not inspect.isfunction(function):
                continue  # of the compiled module: its types are in the stub
            signature = inspect.signature(function)
            for parameter in list(signature.parameters.values()):
                if parameter.name not in ("self", "cls") and (
                        parameter.annotation is parameter.empty):
                    bare.append(f"{name}({parameter.name})")
            if signature.return_annotation is signature.empty and function.__name__ != "__init__":
                bare.append(f"{name} ->")
    assert not bare, "without types: " + ", ".join(bare)


def test_docstrings_do_not_speak_of_the_inside():
    for name, found in documented(crema).items():
        for thing in found:
            assert "nanobind" not in (inspect.getdoc(thing) or ""), name


def test_help_reads_as_a_manual():
    page = pydoc.plain(pydoc.render_doc(crema))
    for said in ("class Net(", "class Solver(", "train(", "forward(", "EarlyStopping", "NetSpec"):
        assert said in page
    page = pydoc.plain(pydoc.render_doc(crema.Net))
    for said in ("weights:", "phase:", "optimize:", "summary(self)", "The table of `crema summary`",
                 "forward(self", "float32"):
        assert said in page
    page = pydoc.plain(pydoc.render_doc(crema.Solver.step))
    for said in ("step(self, iterations: ", "-> 'bool'", "False", "KeyboardInterrupt", "Error"):
        assert said in page.replace("-> bool", "-> 'bool'")


@pytest.mark.parametrize("without", [True, False])
def test_all_names_are_imported_where_protobuf_is_and_is_not(without):
    script = ("import sys\n"
              f"if {without}: sys.modules['google'] = sys.modules['google.protobuf'] = None\n"
              "from crema import *\n"
              f"assert Net and Solver and ('NetSpec' in globals()) is not {without}")
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_help_works_without_protobuf():
    script = ("import sys; sys.modules['google'] = None; sys.modules['google.protobuf'] = None\n"
              "import pydoc, crema; text = pydoc.plain(pydoc.render_doc(crema))\n"
              "assert 'class Net(' in text and 'NetSpec(' not in text")
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
