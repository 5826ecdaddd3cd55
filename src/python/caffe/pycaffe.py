"""Net, solvers, mode and log, as pycaffe has them."""

from __future__ import annotations

import os
import tempfile
import time
import warnings
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import crema
from crema import TEST, TRAIN, _context, _crema
from crema._crema import Blob
from crema._mistakes import OF_NETS, OF_SOLVERS, no_attribute
from crema._net import NetLayer
from crema._source import Source

if TYPE_CHECKING:
    import numpy as np
    from crema import Layer

    Array = np.ndarray[Any, Any]

if "GLOG_minloglevel" not in os.environ:
    # As Caffe: messages are shown unless the variable says otherwise.
    crema.set_log_level(0)


class Net(crema.Net):
    """Net(network_file, phase, level=0, stages=None, weights=None), or Net(file, weights, phase)."""

    def __init__(self, network_file: Any = None, *args: Any, **settings: Any) -> None:
        network_file = settings.pop("model", network_file)
        if network_file is None:
            raise TypeError("Net needs a prototxt: caffe.Net(proto, weights, caffe.TEST)")
        weights = settings.pop("weights", settings.pop("pretrained_file", None))
        phase = settings.pop("phase", None)
        level = settings.pop("level", 0)
        stages = settings.pop("stages", None)
        rest = list(args)
        if rest and not _is_phase(rest[0]):
            weights = rest.pop(0)
        if rest:
            phase = rest.pop(0)
        if rest:
            level = rest.pop(0)
        if rest:
            stages = rest.pop(0)
        if rest:
            weights = rest.pop(0)
        if rest:
            raise TypeError("Net takes at most a file, a phase, a level, stages and weights")
        if phase is None:
            raise TypeError("Net needs a phase: caffe.Net(proto, weights, caffe.TEST)")
        if not _is_phase(phase):
            raise TypeError(f"phase {phase!r} is neither caffe.TRAIN nor caffe.TEST")
        super().__init__(network_file, weights, int(phase), level=level or 0, stages=stages,
                         **settings)

    # What scripts reach for with an underscore.

    @property
    def _layer_names(self) -> list[str]:
        return self.layer_names

    @property
    def _blob_names(self) -> list[str]:
        return list(self.blobs)

    @property
    def _blobs(self) -> list[Blob]:
        return list(self.blobs.values())

    @property
    def _inputs(self) -> list[int]:
        names = self._blob_names
        return [names.index(name) for name in self.inputs]

    @property
    def _outputs(self) -> list[int]:
        names = self._blob_names
        return [names.index(name) for name in self.outputs]

    @property
    def _blob_loss_weights(self) -> list[float]:
        return [self._core.loss_weight(name) for name in self.blobs]

    def _top_ids(self, layer: int) -> list[int]:
        names = self._blob_names
        return [names.index(name) for name in self._rows[layer][3]]

    def _bottom_ids(self, layer: int) -> list[int]:
        names = self._blob_names
        return [names.index(name) for name in self._rows[layer][2]]

    def _forward(self, start: int, end: int) -> float:
        return self._run_forward(start, end)

    def _backward(self, start: int, end: int) -> None:
        self._run_backward(start, end)

    @property
    def layer_dict(self) -> OrderedDict[str, NetLayer | Layer]:
        """The layers by name."""
        return OrderedDict(zip(self.layer_names, self.layers))

    @property
    def blob_loss_weights(self) -> OrderedDict[str, float]:
        """The weight of each blob in the loss; 0 of what is no loss."""
        return OrderedDict((name, self._core.loss_weight(name)) for name in self.blobs)

    @property
    def top_names(self) -> OrderedDict[str, list[str]]:
        """The names of the tops of each layer."""
        return OrderedDict((row[0], list(row[3])) for row in self._rows)

    @property
    def bottom_names(self) -> OrderedDict[str, list[str]]:
        """The names of the bottoms of each layer."""
        return OrderedDict((row[0], list(row[2])) for row in self._rows)

    # Batches.

    def _batch(self, blobs: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        import numpy as np

        if not blobs:
            raise ValueError(f"give the inputs by name: {', '.join(self.inputs) or 'none'}")
        count = len(next(iter(blobs.values())))
        size = next(iter(self.blobs.values())).shape[0]
        for begin in range(0, count, size):
            part = {name: np.asarray(values[begin:begin + size]) for name, values in blobs.items()}
            missing = size - len(next(iter(part.values())))
            if missing:
                part = {name: np.concatenate([values, np.zeros((missing, *values.shape[1:]),
                                                               values.dtype)])
                        for name, values in part.items()}
            yield part

    def forward_all(self, blobs: Iterable[str] | None = None, **kwargs: Any) -> dict[str, Array]:
        """Runs any number of samples in batches; returns copies."""
        import numpy as np

        outs: dict[str, list[Any]] = {name: [] for name in list(self.outputs) + list(blobs or ())}
        for batch in self._batch(kwargs):
            made = self.forward(blobs=blobs, **batch)
            for name in outs:
                outs[name].extend(made[name].copy())
        count = len(next(iter(kwargs.values())))
        return {name: np.asarray(values)[:count] for name, values in outs.items()}

    def forward_backward_all(self, blobs: Iterable[str] | None = None,
                             diffs: Iterable[str] | None = None,
                             **kwargs: Any) -> tuple[dict[str, Array], dict[str, Array]]:
        """Runs any number of samples forward and backward in batches; returns copies."""
        import numpy as np

        outs: dict[str, list[Any]] = {name: [] for name in list(self.outputs) + list(blobs or ())}
        back: dict[str, list[Any]] = {name: [] for name in list(self.inputs) + list(diffs or ())}
        given = {name: kwargs[name] for name in self.inputs if name in kwargs}
        gradients = {name: kwargs[name] for name in self.outputs if name in kwargs}
        batches = list(self._batch(given))
        gradient_batches = list(self._batch(gradients)) if gradients else [{}] * len(batches)
        for batch, gradient in zip(batches, gradient_batches):
            made = self.forward(blobs=blobs, **batch)
            for name in outs:
                outs[name].extend(made[name].copy())
            made = self.backward(diffs=diffs, **gradient)
            for name in back:
                back[name].extend(made[name].copy())
        count = len(next(iter(given.values())))
        return ({name: np.asarray(values)[:count] for name, values in outs.items()},
                {name: np.asarray(values)[:count] for name, values in back.items()})

    def set_input_arrays(self, data: Any, labels: Any) -> None:
        """Gives the first layer, of type MemoryData, samples of four axes and their labels."""
        if not self._rows or self._rows[0][1] != "MemoryData":
            raise RuntimeError("set_input_arrays may only be called if the first layer is a "
                               "MemoryData layer")
        self.set_data(data, labels, self._rows[0][0])

    # Weights.

    def copy_from(self, file: Source) -> None:
        """Copies the weights of layers that the net has."""
        self.load(file)

    def save_hdf5(self, file: str | os.PathLike[str]) -> None:
        """Writes the weights as HDF5, whatever the name of the file."""
        file = os.fspath(file)
        with tempfile.TemporaryDirectory(dir=os.path.dirname(file) or ".") as folder:
            path = os.path.join(folder, "weights.h5")
            self.save(path)
            os.replace(path, file)

    def load_hdf5(self, file: str | os.PathLike[str]) -> None:
        """Copies weights from HDF5."""
        self.load(file)

    # What 2014's scripts called.

    def __getattr__(self, name: str) -> Any:
        if name in _OLD_METHODS:
            raise AttributeError(f"net.{name} is of 2014's pycaffe; use {_OLD_METHODS[name]}")
        raise no_attribute(self, name, OF_NETS)


_OLD_METHODS = {
    "set_mode_cpu": "caffe.set_mode_cpu()",
    "set_mode_gpu": "caffe.set_mode_gpu()",
    "set_phase_test": "caffe.Net(proto, weights, caffe.TEST)",
    "set_phase_train": "caffe.Net(proto, weights, caffe.TRAIN)",
    "set_device": "caffe.set_device(n)",
    "set_mean": "caffe.io.Transformer.set_mean",
    "set_raw_scale": "caffe.io.Transformer.set_raw_scale",
    "set_input_scale": "caffe.io.Transformer.set_input_scale",
    "set_channel_swap": "caffe.io.Transformer.set_channel_swap",
    "preprocess": "caffe.io.Transformer.preprocess",
    "deprocess": "caffe.io.Transformer.deprocess",
}


def _is_phase(value: object) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool)


class Solver(crema.Solver):
    """A solver of the type that its prototxt names."""

    _net_class = Net

    @property
    def iter(self) -> int:
        """The number of iterations done."""
        return self.iteration

    @property
    def lr(self) -> float:
        """The learning rate of the next iteration."""
        return self.learning_rate

    @property
    def param(self) -> Any:
        """The solver's settings, as a SolverParameter."""
        from .proto import caffe_pb2

        message = caffe_pb2.SolverParameter()
        message.ParseFromString(self._core.message)
        return message

    def solve(self, resume_file: str | os.PathLike[str] | None = None) -> bool:
        """Trains up to max_iter, from `resume_file` on if it is given."""
        if resume_file:
            self.restore(resume_file)
        return super().solve()

    def share_weights(self, net: crema.Net) -> None:
        """Lets `net` use the weights of this solver's net."""
        net.share_with(self.net)

    def __getattr__(self, name: str) -> Any:
        if name == "increment_iter":
            raise AttributeError("solver.increment_iter is of a fork; solver.step(n) counts the "
                                 "iterations that it does")
        raise no_attribute(self, name, OF_SOLVERS)


class SGDSolver(Solver):
    """Stochastic gradient descent with momentum."""

    _type = "SGD"


class NesterovSolver(Solver):
    """Nesterov's accelerated gradient."""

    _type = "Nesterov"


class AdaGradSolver(Solver):
    """AdaGrad."""

    _type = "AdaGrad"


class RMSPropSolver(Solver):
    """RMSProp."""

    _type = "RMSProp"


class AdaDeltaSolver(Solver):
    """AdaDelta."""

    _type = "AdaDelta"


class AdamSolver(Solver):
    """Adam."""

    _type = "Adam"


_CLASSES = {kind._type: kind for kind in (SGDSolver, NesterovSolver, AdaGradSolver, RMSPropSolver,
                                          AdaDeltaSolver, AdamSolver)}


def get_solver(file: Source) -> Solver:
    """The solver of a file, of the class that fits its type."""
    solver = Solver(file)
    solver.__class__ = _CLASSES.get(solver.type, Solver)
    return solver


class Timer:
    """A stopwatch: start(), stop(), then ms or s."""

    def __init__(self) -> None:
        self._begin = self._end = time.perf_counter()

    def start(self) -> None:
        """Begins to measure."""
        self._begin = time.perf_counter()

    def stop(self) -> None:
        """Ends what is measured."""
        self._end = time.perf_counter()

    @property
    def ms(self) -> float:
        """Milliseconds between start and stop."""
        return (self._end - self._begin) * 1e3

    @property
    def s(self) -> float:
        """Seconds between start and stop."""
        return self._end - self._begin


_device = 0
_count, _rank = 1, 0


def set_mode_cpu() -> None:
    """Nets that are made from now on run on the CPU."""
    _context.use_cpu()


def set_mode_gpu() -> None:
    """Nets that are made from now on run on the GPU of set_device; without one, on the CPU."""
    _context.use_gpu(_device)


def set_device(device: int) -> None:
    """The GPU of set_mode_gpu, whichever of the two is called first."""
    global _device
    _device = device
    if _context._device is not None:
        _context.use_gpu(device)


def set_devices(devices: Iterable[int]) -> None:
    """set_device of the first; several warn, as a net runs on one."""
    devices = list(devices)
    if len(devices) != 1:
        warnings.warn(f"set_devices({devices}): a net runs on one GPU, here on the first; "
                      "caffe.set_device(n) before another net is made puts that one elsewhere",
                      stacklevel=2)
    if devices:
        set_device(devices[0])


def set_random_seed(seed: int) -> None:
    """The seed of nets and solvers that are made from now on."""
    _context.use_seed(int(seed))


def init_log(level: int | None = None, stderr: bool = True) -> None:
    """Shows messages from `level` on: 0 all, 1 warnings, 2 errors."""
    if level is not None:
        crema.set_log_level(level)


def log(message: object) -> None:
    """Shows a message."""
    _crema.log(str(message))


def layer_type_list() -> list[str]:
    """The types of layers."""
    return crema.layer_types()


def solver_count() -> int:
    """The number of solvers that train one net together: 1."""
    return _count


def solver_rank() -> int:
    """The number of this solver among them: 0."""
    return _rank


def set_solver_count(count: int) -> None:
    """One process trains one net: 1 is the number that there can be."""
    if count != 1:
        raise crema.Error(f"set_solver_count({count}): a process trains with one solver here; "
                          "leave it at 1")


def set_solver_rank(rank: int) -> None:
    """0 is the number that there can be."""
    if rank != 0:
        raise crema.Error(f"set_solver_rank({rank}): a process trains with one solver here; "
                          "leave it at 0")


def set_multiprocess(value: bool) -> None:
    """False is the value that there can be."""
    if value:
        raise crema.Error("set_multiprocess(True): a process trains by itself here; leave it out")


def has_nccl() -> bool:
    """Whether several GPUs train together: not here."""
    return False


__all__ = [
    "TEST", "TRAIN", "AdaDeltaSolver", "AdaGradSolver", "AdamSolver", "Net", "NesterovSolver",
    "RMSPropSolver", "SGDSolver", "Solver", "Timer", "get_solver", "has_nccl", "init_log",
    "layer_type_list", "log", "set_device", "set_devices", "set_mode_cpu", "set_mode_gpu",
    "set_multiprocess", "set_random_seed", "set_solver_count", "set_solver_rank", "solver_count",
    "solver_rank",
]
