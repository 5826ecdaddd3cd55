"""Types: the stub of the compiled module, and what type checkers say of packages and scripts."""

import ast
import enum
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import types

import pytest

import caffe
import crema
from crema import _crema

PACKAGES = os.path.dirname(os.path.dirname(os.path.abspath(crema.__file__)))
STUB = os.path.join(PACKAGES, "crema", "_crema.pyi")

# As people write them. A line that a checker has to refuse ends in `# wrong`.
EXAMPLE = '''
from __future__ import annotations

import numpy as np

import crema
from crema import NetSpec, layers as L, params as P


class Stop(crema.Callback):
    def on_test_end(self, solver: crema.Solver, report: crema.TestReport) -> bool:
        return dict((name, value) for name, _, value in report.outputs)["accuracy"] > 0.99


class Scale(crema.Layer):
    def setup(self, bottom: list[crema.Blob], top: list[crema.Blob]) -> None:  # type: ignore[override]
        self.blobs.add_blob(1).data[...] = 2

    def forward(self, bottom: list[crema.Blob], top: list[crema.Blob]) -> None:  # type: ignore[override]
        top[0].data[...] = bottom[0].data * self.blobs[0].data


def train(path: str) -> float:
    solver = crema.Solver(path, {"base_lr": 0.01}, seed=3)
    crema.train(solver, callbacks=[Stop(), crema.EarlyStopping("accuracy", patience=3)],
                max_iter=100, net={"conv1.num_output": 32})
    losses = solver.history.loss
    best = float(solver.history.test["accuracy"].max())
    state: str = solver.snapshot()
    solver.restore(state)
    return best + float(losses[-1])


def classify(net: crema.Net, images: np.ndarray) -> int:
    net.blobs["data"].reshape(*images.shape)
    net.params["conv1"][0].data[...] *= 2
    scores = net.forward(data=images)["prob"]
    print(net.summary(), net.to_prototxt(), len(net.layers), net.blobs["data"].shape[0] + 1)
    return int(scores.argmax())


def written() -> crema.Net:
    n = NetSpec()
    n.data = L.Input(shape=dict(dim=[1, 1, 8, 8]))
    n.pool = L.Pooling(n.data, pool=P.Pooling.MAX, kernel_size=2)
    return crema.Net(n, phase=crema.TEST, context=crema.Context(threads=2))


def estimator() -> crema.Estimator:
    return crema.Estimator(max_iter=3, random_state=0)


def mistakes(net: crema.Net, solver: crema.Solver) -> None:
    net.forward(start=3)  # wrong
    net.blob["data"]  # wrong
    net.blobs["data"].shape = (1, 2)  # wrong
    solver.step("10")  # wrong
    crema.train(solver, callbacks=[crema.EarlyStopping(patience="3")])  # wrong
    solver.history.losses  # wrong
    crema.Contxt()  # wrong
'''

PYCAFFE = '''
import numpy as np

import caffe
from caffe import layers as L, params as P
from caffe.proto import caffe_pb2

caffe.set_mode_cpu()
net = caffe.Net("deploy.prototxt", "net.caffemodel", caffe.TEST)
transformer = caffe.io.Transformer({"data": net.blobs["data"].data.shape})
transformer.set_transpose("data", (2, 0, 1))
net.blobs["data"].data[...] = transformer.preprocess("data", caffe.io.load_image("cat.jpg"))
print(net.forward()["prob"].argmax(), net.params["conv1"][0].data.shape)
solver = caffe.get_solver("solver.prototxt")
solver.step(10)
print(solver.iter, solver.net.blobs["loss"].data, solver.test_nets[0].outputs)
n = caffe.NetSpec()
n.data = L.Input(shape=dict(dim=[1, 3, 8, 8]))
n.pool = L.Pooling(n.data, pool=P.Pooling.MAX)
print(n.to_proto(), caffe_pb2.Datum(), caffe.Classifier("a", "b"), np.zeros(3))
'''


MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "models")


def scripts_of_models():
    """The scripts of models/ that import one of the packages."""
    found = []
    for folder, _, names in os.walk(MODELS):
        for path in (os.path.join(folder, name) for name in names if name.endswith(".py")):
            with open(path) as file:
                if re.search(r"^\s*(import|from) (crema|caffe)\b", file.read(), re.M):
                    found.append(os.path.abspath(path))
    return sorted(found)


def sources():
    """The files of both packages. The models in crema/share are no part of a package."""
    return sorted(os.path.join(folder, name) for package in ("crema", "caffe")
                  for folder, _, names in os.walk(os.path.join(PACKAGES, package))
                  for name in names if name.endswith(".py")
                  and os.path.exists(os.path.join(folder, name))  # not of a file that has moved
                  and "share" not in os.path.relpath(folder, PACKAGES).split(os.sep))


def members(body):
    """The names of a class or module of a stub, with the names of the parameters of functions."""
    named = {}
    for node in body:
        if isinstance(node, ast.FunctionDef):
            args = [arg.arg for arg in node.args.posonlyargs + node.args.args + node.args.kwonlyargs]
            is_property = any(getattr(each, "id", "") == "property" for each in node.decorator_list)
            named[node.name] = None if is_property else args
        elif isinstance(node, ast.ClassDef):
            named[node.name] = members(node.body)
        elif isinstance(node, ast.AnnAssign):
            named[node.target.id] = None
        elif isinstance(node, ast.Assign) and getattr(node.value, "value", None) is Ellipsis:
            # of an enumeration
            named.update((target.id, None) for target in node.targets)
    return named


def stub():
    with open(STUB) as file:
        return members(ast.parse(file.read()).body)


def is_of_python(name):
    """What each class or module has."""
    return name in vars(object) or name in vars(types.ModuleType("m")) or name in (
        "__new__", "__module__", "__file__", "__loader__", "__cached__", "__weakref__", "__dict__",
        "__nb_signature__", "__orig_bases__", "__nb_enum__",
        "__getattr__")  # of crema/_mistakes.py, which raises


def names_of(thing):
    if isinstance(thing, type) and issubclass(thing, enum.Enum):
        return set(thing.__members__)
    return {name for name in vars(thing) if not is_of_python(name)}


def test_the_stub_has_the_names_of_the_module():
    expected = stub()
    assert names_of(_crema) == set(expected)
    for name, inside in expected.items():
        if isinstance(inside, dict) and name != "Error":
            public = {each for each in inside if not is_of_python(each)}
            assert names_of(getattr(_crema, name)) == public, f"of class {name}"


def parameters_of(function):
    """The names of the parameters of a function of nanobind."""
    (signature, *_), *others = function.__nb_signature__
    if others:
        return None
    inside = re.search(r"\((.*)\)", signature, re.S).group(1)
    inside = re.sub(r"\[[^\[\]]*(\[[^\[\]]*\][^\[\]]*)*\]", "", inside)  # commas of types
    parts = [part.split(":")[0].split("=")[0].strip() for part in inside.split(",")]
    return [part for part in parts if part and part not in ("*", "/") and part[0] != "*"]


def test_the_stub_has_the_parameters_of_the_functions():
    compared = 0

    def compare(thing, inside):
        nonlocal compared
        for name, args in inside.items():
            made = vars(thing).get(name)
            if isinstance(args, dict):
                compare(made, args)
            elif args is not None and hasattr(made, "__nb_signature__"):
                known = parameters_of(made)
                if known is not None and not any(each.startswith("arg") for each in known):
                    assert args == known, f"of {name} in {thing}"
                    compared += 1

    compare(_crema, stub())
    assert compared > 20


def test_packages_say_that_they_are_typed():
    for package in (crema, caffe):
        assert os.path.exists(os.path.join(os.path.dirname(package.__file__), "py.typed"))


def lines_refused(said, script):
    """The numbers of the lines of the script that the checker has refused."""
    return {int(line) for line in re.findall(rf"{re.escape(os.path.basename(script))}:(\d+)", said)}


def wrong_lines(text):
    return {number for number, line in enumerate(text.splitlines(), 1) if line.endswith("# wrong")}


def needs(package):
    return pytest.mark.skipif(importlib.util.find_spec(package) is None,
                              reason=f"needs the package {package}")


@pytest.fixture
def scripts(tmp_path):
    (tmp_path / "example.py").write_text(EXAMPLE)
    (tmp_path / "pycaffe_example.py").write_text(PYCAFFE)
    return str(tmp_path / "example.py"), str(tmp_path / "pycaffe_example.py")


# scikit-learn has no types.
MYPY = """
[mypy]
[mypy-sklearn.*]
ignore_missing_imports = True
"""


@needs("mypy")
def test_mypy(scripts, tmp_path):
    (tmp_path / "mypy.ini").write_text(MYPY)
    run = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--config-file",
         str(tmp_path / "mypy.ini"), "--cache-dir", str(tmp_path / "cache"), "--exclude", "/share/", "-p", "crema", "-p", "caffe"],
        env={**os.environ, "MYPYPATH": PACKAGES, "PYTHONPATH": ""}, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    run = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--warn-unused-ignores",
         "--cache-dir", str(tmp_path / "cache"), *scripts],
        env={**os.environ, "MYPYPATH": PACKAGES, "PYTHONPATH": ""}, capture_output=True, text=True)
    assert lines_refused(run.stdout, scripts[0]) == wrong_lines(EXAMPLE), run.stdout + run.stderr
    assert "pycaffe_example.py" not in run.stdout.replace("error: ", ""), run.stdout


@needs("mypy")
def test_mypy_on_the_scripts_of_models(tmp_path):
    for script in scripts_of_models():
        run = subprocess.run(
            [sys.executable, "-m", "mypy", "--no-error-summary", "--ignore-missing-imports",
             "--cache-dir", str(tmp_path / "cache"), script],
            env={**os.environ, "MYPYPATH": PACKAGES, "PYTHONPATH": ""}, cwd=tmp_path,
            capture_output=True, text=True)
        assert run.returncode == 0, run.stdout + run.stderr


@needs("pyright")
def test_pyright(scripts, tmp_path):
    for script in scripts_of_models():
        shutil.copy(script, tmp_path)
    (tmp_path / "pyrightconfig.json").write_text(
        '{"extraPaths": ["%s"], "reportMissingModuleSource": false, '
        '"reportUnusedExpression": false, "reportMissingImports": false}' % PACKAGES)
    try:
        run = subprocess.run(
            [sys.executable, "-m", "pyright", "-p", str(tmp_path), "--pythonpath", sys.executable],
            capture_output=True, text=True, timeout=400)
    except subprocess.TimeoutExpired:
        pytest.skip("pyright could not get its program in time")
    if "error" not in run.stdout:
        pytest.skip(f"pyright does not run here: {run.stdout}{run.stderr}")
    refused = {int(line) for line in re.findall(r"/example\.py:(\d+):\d+ - error", run.stdout)}
    assert refused == wrong_lines(EXAMPLE), run.stdout
    others = [line for line in run.stdout.splitlines()
              if " - error" in line and "/example.py:" not in line]
    assert not others, "\n".join(others)
    run = subprocess.run(
        [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, *sources()],
        capture_output=True, text=True, cwd=PACKAGES, timeout=400)
    assert re.search(r"^0 errors", run.stdout, re.M), run.stdout
