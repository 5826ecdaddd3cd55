"""Crema: nets of layers, described by prototxt files, that speak the published Caffe formats.

    import crema

    solver = crema.Solver('models/lenet/solver.prototxt')
    solver.step(100)
    net = crema.Net('models/lenet/deploy.prototxt', weights='lenet.caffemodel')
    net.blobs['data'].data[...] = digits
    scores = net.forward()['prob']

Net, Blob and Solver are what most scripts need; Layer is the base class of layers in Python.
Every failure of the library is an Error, a RuntimeError that names file, line and layer.
The package caffe beside this one has the names of pycaffe.
"""

import os as _os
import sys as _sys

# Threads that wait for each other spin; as long as the program crema lets them (GNU OpenMP).
if "OMP_WAIT_POLICY" not in _os.environ:
    _os.environ.setdefault("GOMP_SPINCOUNT", "3000")

# Functions of the libraries are bound at their first call, as in the program. Python binds all at
# once, which takes longer than the rest of the import.
_flags = _sys.getdlopenflags()
_sys.setdlopenflags(_os.RTLD_LAZY)
try:
    from . import _crema as _crema
finally:
    _sys.setdlopenflags(_flags)

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
    TestReport,
    layer_types,
    log_level,
    set_log_level,
)
from ._crema import version as __version__  # noqa: E402
from ._layer import Layer  # noqa: E402
from ._net import Net, NetLayer  # noqa: E402
from ._solver import Solver  # noqa: E402

__all__ = [
    "TEST",
    "TRAIN",
    "Blob",
    "Context",
    "Error",
    "IterationReport",
    "Layer",
    "LoadReport",
    "Net",
    "NetLayer",
    "Solver",
    "TestReport",
    "__version__",
    "context",
    "layer_types",
    "log_level",
    "set_context",
    "set_log_level",
]
