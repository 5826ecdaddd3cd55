"""crema.train: a training with callbacks and other settings."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from . import _crema
from ._callbacks import Callback
from ._progress import ProgressBar, has_tqdm, in_notebook
from ._record import Observer
from ._solver import Solver
from ._source import path_of

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from ._source import Source


def train(solver: Solver | Source, callbacks: Callback | Iterable[Callback] = (), *,
          iterations: int | None = None, resume: bool = False, progress: bool | None = None,
          weights: str | os.PathLike[str] | Sequence[Any] | None = None,
          run_dir: bool | str | os.PathLike[str] | None = None, overwrite: bool = False,
          **overrides: Any) -> Solver:
    """Trains, and tells the callbacks how it goes. Returns the solver, whose history has all.

        solver = crema.train('solver.prototxt', base_lr=0.005)
        crema.train(solver, callbacks=[crema.EarlyStopping('accuracy')], max_iter=20000)
        crema.train('solver.prototxt', net={'conv1.num_output': 32, 'data.batch_size': 16})

    solver: a Solver, or what one is made of: the path of a solver prototxt, its text, or a message.
    callbacks: objects of classes derived from crema.Callback, or one.
    iterations: how many to train; None for up to max_iter.
    resume: continues from the newest snapshot with the solver's prefix, if there is one.
    progress: whether a bar of tqdm is shown. None: if tqdm is installed, and the output is a
        terminal or a notebook.
    weights: files of weights to start from.
    run_dir: the folder of the run, with its curves, settings, nets, report.html and events for
        TensorBoard, as `crema train` makes it, but without a log; `crema report` evaluates the
        weights. True: runs/<net>-<n> below the working directory. With resume, the run goes on in
        it; True stands for the one that the snapshot names. None or False: none.
    overwrite: replaces files of another run that has the same snapshot_prefix.
    overrides: settings of the solver in place of those in the files, such as base_lr=0.01, and
        those of layers, in one of two spellings: **{'net.conv1.num_output': 32}, or
        net={'conv1': {'num_output': 32}}. train_net and test_net change layers of one phase.

    A Solver that is given overrides or weights is made anew with them before its first iteration:
    solver.net is then another one, with the values of the parameters that have kept their shape.
    A solver that has trained keeps its settings: ValueError says what to do.

    An exception in a callback ends the training and comes out with its traceback, behind
    on_exception of all callbacks. crema.Error for a setting that there is not, with the nearest
    name; and where snapshots of another run have the solver's snapshot_prefix, without resume and
    overwrite.
    """
    settings = flat(overrides)
    chosen = _checked(callbacks)
    if isinstance(solver, Solver):
        trained = solver
        if settings or weights is not None:
            _remake(trained, settings, weights)
    else:
        trained = Solver(solver, settings, weights=weights)
    if resume:
        trained.resume()
    elif trained.iteration == 0 and not overwrite:
        _refuse_mixing(trained)
    if progress is None:
        progress = has_tqdm() and (in_notebook() or sys.stderr.isatty())
        progress = progress and not any(isinstance(each, ProgressBar) for each in chosen)
    if progress:
        chosen.append(ProgressBar())
    for each in chosen:
        if isinstance(each, ProgressBar):
            each._expect(None if iterations is None else trained.iteration + iterations)
    if run_dir is None or run_dir is False:
        _run(trained, chosen, iterations)
        return trained
    folder = b"" if run_dir is True else path_of(run_dir)
    trained._core.start_recording(folder, resume or trained.iteration > 0)
    finished, failure = False, ""
    try:
        finished = _run(trained, chosen, iterations)
    except KeyboardInterrupt:  # it stopped the run
        raise
    except BaseException as error:
        failure = str(error) or type(error).__name__
        raise
    finally:
        trained._core.end_recording(finished, failure)
    return trained


def flat(settings: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """{'net': {'conv1': {'num_output': 32}}} as {'net.conv1.num_output': 32}."""
    made: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            made.update(flat(value, f"{before}{name}."))
        else:
            made[before + name] = value
    return made


def _refuse_mixing(solver: Solver) -> None:
    """Error where the snapshots of the run would come among those of another one."""
    files = solver._core.present_snapshots()
    if files:
        are = "is" if len(files) == 1 else f"and {len(files) - 1} more of its prefix are"
        raise _crema.Error(f"'{files[0]}' {are} of another run. resume=True continues that run, "
                           "overwrite=True replaces its files, and another snapshot_prefix keeps "
                           "both")


def _checked(callbacks: Callback | Iterable[Callback]) -> list[Callback]:
    if isinstance(callbacks, Callback):
        return [callbacks]
    if not isinstance(callbacks, Iterable):
        raise TypeError(f"callbacks is {callbacks!r}, which is no crema.Callback: derive its class "
                        "from it, or give a function to solver.on_iteration")
    chosen = list(callbacks)
    for each in chosen:
        if isinstance(each, type) and issubclass(each, Callback):
            raise TypeError(f"callbacks has the class {each.__name__}; give an object of it: "
                            f"{each.__name__}()")
        if not isinstance(each, Callback):
            raise TypeError(f"callbacks has {each!r}, which is no crema.Callback: derive its class "
                            "from it")
    return chosen


def _remake(solver: Solver, settings: Mapping[str, Any], weights: Any) -> None:
    """Gives the solver the settings, and the parameters that it had."""
    named = ", ".join(settings) or "weights"
    if solver.iteration > 0:
        raise ValueError(
            f"the solver has done {solver.iteration} iterations with its settings, and cannot take "
            f"other ones ({named}); make another one, crema.Solver(source, settings), and let it "
            "continue with restore(solver.snapshot())")
    if any(kind == "MemoryData" for _, kind, _, _ in solver._core.net().layers()):
        raise ValueError(
            f"the net has a MemoryData layer, whose data would be lost with other settings "
            f"({named}); make the solver with them, crema.Solver(source, settings), before "
            "set_data()")
    args, given = solver._arguments
    given = dict(given)
    old = dict((args[1] if len(args) > 1 else given.pop("settings", None)) or {})
    if weights is not None:
        given["weights"] = weights
    fresh = type(solver)(*args[:1], **{**given, "settings": {**old, **settings}})
    before, after = solver._core.net(), fresh._core.net()
    if weights is None and solver._net is not None:  # else nobody has changed them
        _copy(before, after)
    solver._core = fresh._core
    solver._net = solver._test_nets = None
    solver._arguments = fresh._arguments


def _copy(before: _crema.Net, after: _crema.Net) -> None:
    """The parameters of layers of one name and shape."""
    place = {name: index for index, (name, _, _, _) in enumerate(before.layers())}
    for index, (name, _, _, _) in enumerate(after.layers()):
        if name not in place:
            continue
        for target, source in zip(after.layer_blobs(index), before.layer_blobs(place[name])):
            if target.shape == source.shape:
                target.data[...] = source.data


class _Callbacks(Observer):
    """Tells callbacks what the solver does."""

    def __init__(self, solver: Solver, callbacks: list[Callback]):
        self._solver = solver
        self._callbacks = callbacks

    def all(self, method: str, *args: Any) -> bool:
        """Calls a method of all. Whether one of them returned True."""
        stops = False
        for each in self._callbacks:
            stops |= getattr(each, method)(self._solver, *args) is True
        return stops

    def iterated(self, report: _crema.IterationReport) -> bool:
        return self.all("on_iteration_end", report)

    def tested(self, report: _crema.TestReport) -> bool:
        return self.all("on_test_end", report)

    def saved(self, path: str) -> bool:
        return self.all("on_snapshot", path)


class _CallbacksOfPasses(_Callbacks):
    """The same for callbacks that look at each pass."""

    def started(self) -> None:
        self.all("on_iteration_start")

    def ready(self) -> None:
        self.all("on_gradients_ready")


def _looks_at_passes(callback: Callback) -> bool:
    kind = type(callback)
    return (kind.on_iteration_start is not Callback.on_iteration_start
            or kind.on_gradients_ready is not Callback.on_gradients_ready)


def _run(solver: Solver, callbacks: list[Callback], iterations: int | None) -> bool:
    """Whether nothing stopped it."""
    kind = _CallbacksOfPasses if any(map(_looks_at_passes, callbacks)) else _Callbacks
    observer = kind(solver, callbacks)
    solver._observers.append(observer)
    told: list[Callback] = []
    try:
        for each in callbacks:
            told.append(each)
            each.on_train_start(solver)
        done = solver.solve() if iterations is None else solver.step(iterations)
    except BaseException as error:
        for each in told:
            each.on_exception(solver, error)
        raise
    finally:
        solver._observers.remove(observer)
    observer.all("on_train_end")
    return done
