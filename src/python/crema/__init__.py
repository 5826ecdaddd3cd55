"""Crema: nets of layers, described by prototxt files, that speak the published Caffe formats.

    import crema

    solver = crema.Solver('models/lenet/solver.prototxt')
    solver.step(100)
    net = crema.Net('models/lenet/deploy.prototxt', weights='lenet.caffemodel')
    net.blobs['data'].data[...] = digits
    scores = net.forward()['prob']

Net, Blob and Solver are what most scripts need; Layer is the base class of layers in Python.
train() trains with callbacks (Callback, EarlyStopping, ProgressBar and others) and other settings;
solver.history has the losses and tests of a solver as arrays. feed() takes data from any iterable,
and Estimator is a classifier of scikit-learn.
NetSpec, layers and params write nets in Python, and messages has all messages as classes; these
need the package protobuf, and are imported at first use.
Every failure of the library is an Error, a RuntimeError that names file, line and layer.
The package caffe beside this one has the names of pycaffe.
"""

import os as _os
import sys as _sys
from typing import TYPE_CHECKING

# Threads that wait for each other spin; as long as the program crema lets them (GNU OpenMP).
if "OMP_WAIT_POLICY" not in _os.environ:
    _os.environ.setdefault("GOMP_SPINCOUNT", "3000")

# Functions of the libraries are bound at their first call, as in the program. Python binds all at
# once, which takes longer than the rest of the import. They are looked for among the libraries of
# the module first: TensorFlow offers those of its own protobuf to the whole process. What is
# preloaded, such as another malloc or AddressSanitizer, has to come before all.
_flags = _sys.getdlopenflags()
_deep = 0 if "LD_PRELOAD" in _os.environ else getattr(_os, "RTLD_DEEPBIND", 0)
_sys.setdlopenflags(_os.RTLD_LAZY | _deep)
try:
    from . import _crema as _crema
finally:
    _sys.setdlopenflags(_flags)

from ._callbacks import Callback, CSVLogger, EarlyStopping, TimeLimit  # noqa: E402
from ._context import (  # noqa: E402
    TEST,
    TRAIN,
    context,
    set_context,
)
from ._crema import (  # noqa: E402
    Blob,
    Context,
    Error,
    IterationReport,
    LoadReport,
    OnnxReport,
    TestReport,
    layer_types,
    log_level,
    set_log_level,
)
from ._crema import version as __version__  # noqa: E402
from ._data import Feed, feed  # noqa: E402
from ._history import History, TestHistory  # noqa: E402
from ._layer import Layer  # noqa: E402
from ._mistakes import teach_blobs as _teach_blobs  # noqa: E402
from ._net import Net, NetLayer  # noqa: E402
from ._progress import LossCurve, ProgressBar  # noqa: E402
from ._solver import Solver  # noqa: E402
from ._train import train  # noqa: E402

_teach_blobs()

if TYPE_CHECKING:
    from . import messages as messages
    from ._estimator import Estimator as Estimator
    from .net_spec import NetSpec as NetSpec
    from .net_spec import layers as layers
    from .net_spec import params as params
    from .net_spec import to_proto as to_proto

# Those that need another package, and the module that imports it.
_LATER = {"NetSpec": ("google.protobuf", "net_spec"), "layers": ("google.protobuf", "net_spec"),
          "params": ("google.protobuf", "net_spec"), "to_proto": ("google.protobuf", "net_spec"),
          "messages": ("google.protobuf", "messages"), "Estimator": ("sklearn", "_estimator")}


if not TYPE_CHECKING:  # to whom all names would be right

    def __getattr__(name):
        import importlib

        if name == "__all__":  # of `from crema import *`, which takes what can be imported
            return [each for each in _NAMES if each not in _missing()]
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = importlib.import_module("." + _LATER[name][1], __name__)
        value = module if name == "messages" else getattr(module, name)
        globals()[name] = value
        return value


def _is_installed(package: str) -> bool:
    import importlib.util

    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # of the package around it
        return False


def _missing() -> set[str]:
    return {name for name, (package, _) in _LATER.items() if not _is_installed(package)}


def __dir__() -> list[str]:
    # help() asks for all that is here.
    return sorted({*globals(), "__all__", *_LATER} - _missing())


__all__ = [
    "TEST",
    "TRAIN",
    "Blob",
    "CSVLogger",
    "Callback",
    "Context",
    "EarlyStopping",
    "Error",
    "Feed",
    "History",
    "IterationReport",
    "Layer",
    "LoadReport",
    "OnnxReport",
    "LossCurve",
    "Net",
    "NetLayer",
    "NetSpec",
    "ProgressBar",
    "Solver",
    "TestHistory",
    "TestReport",
    "TimeLimit",
    "context",
    "feed",
    "layer_types",
    "layers",
    "log_level",
    "messages",
    "params",
    "set_context",
    "set_log_level",
    "to_proto",
    "train",
    "__version__",
]

if not TYPE_CHECKING:
    _NAMES = __all__
    del __all__  # __getattr__ has it
