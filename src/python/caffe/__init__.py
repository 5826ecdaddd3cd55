"""pycaffe's API on Crema: `import caffe` in scripts that were written for Caffe.

Its names and behaviour are those of pycaffe; what it is made of is the package crema.
"""

from typing import TYPE_CHECKING

from crema import TEST, TRAIN, Error, Layer, __version__

from .pycaffe import (
    AdaDeltaSolver,
    AdaGradSolver,
    AdamSolver,
    Net,
    NesterovSolver,
    RMSPropSolver,
    SGDSolver,
    Solver,
    Timer,
    get_solver,
    has_nccl,
    init_log,
    layer_type_list,
    log,
    set_device,
    set_devices,
    set_mode_cpu,
    set_mode_gpu,
    set_multiprocess,
    set_random_seed,
    set_solver_count,
    set_solver_rank,
    solver_count,
    solver_rank,
)

if TYPE_CHECKING:
    from . import classifier, coord_map, detector, draw, io, net_spec, proto  # noqa: F401
    from .classifier import Classifier
    from .detector import Detector
    from .net_spec import NetSpec, layers, params, to_proto
    from .single_layer import Blob, LayerParameter, compile_net, create_layer

# Modules that need more than numpy, or that most scripts do not use, are imported at first use.
_MODULES = ("io", "net_spec", "classifier", "detector", "draw", "coord_map", "proto", "pycaffe",
            "_caffe", "single_layer")
_FROM = {"Classifier": "classifier", "Detector": "detector", "layers": "net_spec",
         "params": "net_spec", "NetSpec": "net_spec", "to_proto": "net_spec",
         "Blob": "single_layer", "LayerParameter": "single_layer", "compile_net": "single_layer",
         "create_layer": "single_layer"}


if not TYPE_CHECKING:  # to whom all names would be right

    def __getattr__(name):
        import importlib

        if name in _MODULES:
            return importlib.import_module(f".{name}", __name__)
        if name in _FROM:
            value = getattr(importlib.import_module(f".{_FROM[name]}", __name__), name)
            globals()[name] = value
            return value
        if name in _OLD:
            raise AttributeError(f"caffe.{name} is of 2014's pycaffe; use {_OLD[name]}")
        if name in _OF_FORKS:
            raise AttributeError(f"caffe.{name} is of a fork; {_OF_FORKS[name]}")
        if name == "NCCL":
            raise AttributeError("caffe.NCCL trains on several GPUs, and a process trains on one "
                                 "here; leave it out where caffe.has_nccl() is False")
        raise AttributeError(f"module 'caffe' has no attribute {name!r}")


_OLD = {
    "set_phase_test": "caffe.Net(proto, weights, caffe.TEST)",
    "set_phase_train": "caffe.Net(proto, weights, caffe.TRAIN)",
}

_OF_FORKS = {
    "MultiSync": "a process trains with one solver here: caffe.get_solver(file).solve()",
    "MultiSolver": "a process trains with one solver here: caffe.get_solver(file)",
    "enumerate_devices": "`crema device_query` lists the GPUs; leave it out",
    "select_device": "use caffe.set_device(n) before the net is made",
}

__all__ = [
    "TEST", "TRAIN", "AdaDeltaSolver", "AdaGradSolver", "AdamSolver", "Blob", "Classifier",
    "Detector", "Error", "Layer", "LayerParameter", "Net", "NesterovSolver", "NetSpec",
    "RMSPropSolver", "SGDSolver", "Solver", "Timer", "__version__", "compile_net", "create_layer",
    "get_solver", "has_nccl", "init_log", "io", "layer_type_list", "layers", "log", "params",
    "set_device", "set_devices", "set_mode_cpu", "set_mode_gpu", "set_multiprocess",
    "set_random_seed", "set_solver_count", "set_solver_rank", "solver_count", "solver_rank",
    "to_proto",
]
