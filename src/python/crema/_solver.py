"""Solver: trains a net by the settings of a solver prototxt."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from . import _crema
from ._context import context as default_context
from ._crema import Context
from ._mistakes import OF_SOLVERS, no_attribute, suggests
from ._net import Net
from ._record import SolverRecord
from ._source import Source, path_of, source_of


Result = TypeVar("Result")


class Solver(SolverRecord):
    """Trains a net.

    source: the path of a solver prototxt, its text, a SolverParameter, or the bytes of one.
    settings: values in place of those in the files, such as base_lr=0.01, or, of layers,
        {'net.conv1.num_output': 32}.
    weights: files to start from. seed: in place of random_seed.
    optimize: lets the nets fuse layers and share memory between blobs; it trains faster, and blobs
        other than inputs and outputs have no values to look at.

    Ctrl-C stops solve and step between two iterations, behind a snapshot if the solver writes any,
    and raises KeyboardInterrupt. Training runs without the GIL.
    """

    _net_class: type[Net] = Net
    _type: str | None = None

    @suggests
    def __init__(self, source: Source, settings: Mapping[str, Any] | None = None, *,
                 weights: str | os.PathLike[str] | Sequence[Any] | None = None,
                 seed: int | None = None, context: Context | None = None, optimize: bool = False,
                 memory_budget: int = 0):
        if isinstance(weights, (str, os.PathLike)):
            weights = [weights]
        self._core = _crema.Solver(
            context or default_context(), *source_of(source), type=self._type,
            set=[f"{field}={_text(value)}" for field, value in (settings or {}).items()],
            weights=None if weights is None else [path_of(file) for file in weights], seed=seed,
            optimize=optimize, memory_budget=memory_budget)
        self._net: Net | None = None
        self._test_nets: list[Net] | None = None
        self._callbacks: list[tuple[Callable[[], Any], Callable[[], Any]]] = []
        #: Called behind each iteration with an IterationReport, behind each test with a TestReport,
        #: and behind each snapshot with the path of the state. on_iteration ends the training as
        #: stop() does if it returns True. on_note is called with what the solver did by itself: it
        #: went back to a snapshot (on_nan), halved the batch (on_oom), or ended early (early_stop,
        #: max_hours).
        self.on_iteration: Callable[[_crema.IterationReport], Any] | None = None
        self.on_test: Callable[[_crema.TestReport], Any] | None = None
        self.on_snapshot: Callable[[str], Any] | None = None
        self.on_note: Callable[[str], Any] | None = None

    if not TYPE_CHECKING:  # to whom all names would be right

        def __getattr__(self, name):
            raise no_attribute(self, name, OF_SOLVERS)

    @property
    def net(self) -> Net:
        """The net that is trained."""
        if self._net is None:
            self._net = self._net_class._of(self._core.net())
        return self._net

    @property
    def test_nets(self) -> list[Net]:
        """The nets that are tested, which share its parameters."""
        if self._test_nets is None:
            self._test_nets = [self._net_class._of(core) for core in self._core.test_nets()]
        return self._test_nets

    @property
    def type(self) -> str:
        """The update rule, such as "SGD"."""
        return self._core.type

    @property
    def iteration(self) -> int:
        """The number of iterations done."""
        return self._core.iteration

    @property
    def max_iterations(self) -> int:
        """max_iter of the settings; 0 without."""
        return self._core.max_iterations

    @property
    def learning_rate(self) -> float:
        """That of the next iteration."""
        return self._core.rate

    @property
    def end(self) -> str:
        """Why the last solve or step returned; "" before the first one, and where it raised.

        "finished": all iterations are done. "stopped": by stop(), a hook or Ctrl-C. "early": by
        early_stop of the settings. "time_over": by their max_hours.
        """
        return self._core.end

    def _run(self, body: Callable[[], Result]) -> Result:
        """Runs `body` with the hooks of this object. The library has them no longer than that."""
        core = self._core
        hooks: dict[str, Any] = {"on_iteration": self.on_iteration, "on_test": self.on_test,
                                 "on_snapshot": self.on_snapshot, "on_note": self.on_note}
        if self._callbacks:
            hooks["before_iteration"] = lambda: [start() for start, _ in self._callbacks]
            hooks["before_update"] = lambda: [ready() for _, ready in self._callbacks]
        hooks = self._recording(hooks)
        before = {name: getattr(core, name) for name in hooks}  # of a run that this one is within
        for name, hook in hooks.items():
            setattr(core, name, hook)
        try:
            with _Interruption(core):
                return body()
        finally:
            for name, hook in before.items():
                setattr(core, name, hook)
            self._record()

    def stop(self) -> None:
        """Ends solve, step or test that runs: behind the present iteration, and a snapshot.

        For hooks and other threads. on_iteration may return True instead.
        """
        self._core.stop()

    def solve(self) -> bool:
        """Trains up to max_iter, with the tests and snapshots of the settings.

        Returns and raises as step() does. Error if the settings have no max_iter.
        """
        return self._run(self._core.solve)

    def step(self, iterations: int) -> bool:
        """Trains so many iterations, with the tests and snapshots of the settings in between.

        Returns True, or False if it was stopped, by stop() or by a hook that returned True.
        KeyboardInterrupt for Ctrl-C, behind the present iteration, and behind a snapshot if the
        solver writes any. Error for a loss that is not finite, and for data that cannot be read.
        What hooks and layers in Python raise comes out as it is. history has what was reported.
        TypeError for what is no whole number, ValueError for one below 0.
        """
        if not hasattr(iterations, "__index__"):
            raise TypeError(f"iterations is {iterations!r}; give a whole number")
        count = operator.index(iterations)
        if count < 0:
            raise ValueError(f"iterations is {count}; give 0 or more")
        return self._run(lambda: self._core.step(count))

    def test(self) -> list[_crema.TestReport]:
        """Runs all test nets, test_iter batches each. Returns a report of each that has any.

        With snapshot_best of the settings, it writes a snapshot if the result is the best so far.
        """
        return self._run(self._core.test)

    def try_rates(self, first: float = 1e-7, last: float = 10, steps: int = 100, *,
                  smoothing: float = 0.8, stop: float = 4) -> _crema.RateCurve:
        """Trains with rates that rise from first to last, then sets all back.

        Each smoothed loss has the part `smoothing` of the one before. It ends where the smoothed
        loss is `stop` times the least one. No hook is called, and nothing is written. Error for an
        argument out of its range.
        """
        return self._core.try_rates(first, last, steps, smoothing, stop)

    def try_batches(self, memory: int = 0, most: int = 4096,
                    iterations: int = 5) -> list[_crema.BatchResult]:
        """Plans for batches of 1, 2, 4, ... records, times those that fit, and sets all back.

        memory: the bytes that a plan may take; 0: what is free. most: the largest batch.
        iterations: how many are timed. Error where a data layer takes batches of its own size alone.
        """
        return self._core.try_batches(memory, most, iterations)

    def apply_update(self) -> None:
        """Updates the parameters by their gradients, as an iteration does behind backward."""
        self._core.apply_update()

    def add_callback(self, on_start: Callable[[], Any],
                     on_gradients_ready: Callable[[], Any]) -> None:
        """Calls on_start before each iteration, and on_gradients_ready before each update."""
        self._callbacks.append((on_start, on_gradients_ready))

    def snapshot(self) -> str:
        """Writes weights (.caffemodel) and state (.solverstate) under the solver's snapshot_prefix.

        Returns the path of the state. Error if they cannot be written.
        """
        return self._run(self._core.snapshot)

    def restore(self, path: str | os.PathLike[str]) -> None:
        """Continues from a .solverstate: weights, momentum, iteration, positions in the data.

        Error if it is damaged, or of another net.
        """
        self._core.restore(os.fsencode(path))

    def resume(self) -> str:
        """Continues from the newest snapshot with the solver's prefix; "" if there is none."""
        return self._core.resume()

    def __getstate__(self) -> NoReturn:
        raise TypeError("a solver cannot be pickled or copied; snapshot() writes its state to a "
                        "file, and restore() of another solver goes on from it")

    def __repr__(self) -> str:
        return f"<crema.Solver {self.type}, iteration {self.iteration}>"


class _Interruption:
    """Ctrl-C stops the solver between two iterations, also where Python code runs meanwhile.

    A second Ctrl-C does not wait for that, nor does a long wait for data. A handler that the script
    has set stays.
    """

    active: _Interruption | None = None

    def __init__(self, core: _crema.Solver):
        self._core = core
        self._caught = self._handles = False

    def _catch(self, *_: Any) -> None:
        if self._caught:
            raise KeyboardInterrupt
        self._caught = True
        self._core.stop()

    def __enter__(self) -> None:
        import signal
        import threading

        if (threading.current_thread() is threading.main_thread()
                and signal.getsignal(signal.SIGINT) is signal.default_int_handler):
            signal.signal(signal.SIGINT, self._catch)
            self._handles = True
            _Interruption.active = self

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        if self._handles:
            import signal

            _Interruption.active = None
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if self._caught and kind is None:
            raise KeyboardInterrupt


def end_wait() -> None:
    """KeyboardInterrupt if Ctrl-C has asked the solver of this thread to stop.

    The library calls it while a pass waits long for data.
    """
    import threading

    running = _Interruption.active
    if (running is not None and running._caught
            and threading.current_thread() is threading.main_thread()):
        raise KeyboardInterrupt


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(map(_text, value))
    return str(value)
