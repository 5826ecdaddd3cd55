"""Callbacks of crema.train: objects that are told how a training goes, and may stop it."""

from __future__ import annotations

import math
import os
import time
from typing import TYPE_CHECKING, Any

from ._crema import IterationReport, TestReport
from ._curves import is_loss
from ._history import _FIELDS, History, values_of

if TYPE_CHECKING:
    from ._solver import Solver


class Callback:
    """Is told how a training goes: derive from it, and define the methods that you need.

        class Say(crema.Callback):
            def on_test_end(self, solver, report):
                print(report.iteration, report.outputs)

        crema.train(solver, callbacks=[Say()])

    on_iteration_end, on_test_end and on_snapshot may return True, which stops the training: behind
    a snapshot, if the solver writes any. Other results mean nothing. solver.stop() does the same
    from anywhere.

    An exception in a method ends the training and comes out of train() with its traceback. All
    callbacks are called in the order of the list.
    """

    def on_train_start(self, solver: Solver) -> None:
        """Before the first iteration, and behind the resume."""

    def on_iteration_start(self, solver: Solver) -> None:
        """Before the passes of an iteration, whose number is solver.iteration."""

    def on_gradients_ready(self, solver: Solver) -> None:
        """Between the backward pass and the update: gradients, as of solver.net.params, may be
        changed. On a GPU it is not called."""

    def on_iteration_end(self, solver: Solver, report: IterationReport) -> bool | None:
        """Behind each iteration. True stops the training."""

    def on_test_end(self, solver: Solver, report: TestReport) -> bool | None:
        """Behind the test of each test net. True stops the training."""

    def on_snapshot(self, solver: Solver, path: str) -> bool | None:
        """Behind each snapshot; `path` is that of its .solverstate. True stops the training."""

    def on_train_end(self, solver: Solver) -> None:
        """At the end, if no exception came: whether max_iter was reached, or somebody stopped."""

    def on_exception(self, solver: Solver, error: BaseException) -> None:
        """In place of on_train_end if an exception ends the training, KeyboardInterrupt too. It is
        raised again behind this."""


def no_metric(name: str, known: list[str]) -> ValueError:
    """What is said of a value that there is not to look at."""
    import difflib

    near = difflib.get_close_matches(name, known, 1)
    hint = f"; did you mean {near[0]!r}?" if near else ";"
    return ValueError(f"there is no {name!r} to monitor{hint} there are {', '.join(known)}")


class Monitor:
    """A value of iterations or of tests: "smoothed", "test_accuracy" or, shorter, "accuracy"."""

    def __init__(self, name: str):
        self.name = name
        self._net = 0
        self._output = ""

    def find(self, solver: Solver) -> None:
        """ValueError, with the names that there are, if the solver has no such value."""
        if self.name in _FIELDS:
            self._output = ""
            return
        outputs = {f"test{index or ''}_{output}": (index, output)
                   for index, net in enumerate(solver.test_nets) for output in net.outputs}
        base, bracket, rest = self.name.partition("[")
        place = outputs.get(base) or outputs.get("test_" + base)
        if place is None:
            raise no_metric(self.name, [*_FIELDS, *outputs])
        self._net, output = place
        self._output = output + bracket + rest

    @property
    def of_tests(self) -> bool:
        """Whether it is of tests, not of iterations."""
        return self._output != ""

    def of_iteration(self, report: IterationReport) -> float | None:
        """Its value; None if it is of tests."""
        return None if self.of_tests else float(getattr(report, _FIELDS[self.name]))

    def of_test(self, report: TestReport) -> float | None:
        """Its value; None if it is of iterations, or of another test net."""
        if not self.of_tests or report.net != self._net:
            return None
        values = values_of(report)
        if self._output not in values:
            raise no_metric(self.name, list(values))
        return values[self._output]


class EarlyStopping(Callback):
    """Stops when a value has not become better for a while.

        crema.train(solver, callbacks=[crema.EarlyStopping("accuracy", patience=5)])

    monitor: an output of the tests ("accuracy", "test_loss"; "test1_accuracy" of the second test
        net, "scores[2]" of an output with several values), or a value of iterations ("loss",
        "smoothed"): those that solver.history has.
    patience: how many tests (or iterations) in a row may be no better.
    mode: "max", "min", or "auto": "min" for names with a word such as loss or error.
    min_delta: how much better is better.
    check_finite: stops at once for a value that is not finite.
    target: stops as soon as the value is as good as this.
    divergence: stops as soon as the value is worse than this.
    restore_best: puts the weights of the best value back into the net when the training ends. They
        are held in memory meanwhile.

    Behind the training: best (the value), best_iteration, and stopped_because (text, or None).
    train() raises ValueError if the solver has no such value, with the names that it has.
    """

    def __init__(self, monitor: str = "test_loss", patience: int = 5, *, mode: str = "auto",
                 min_delta: float = 0.0, check_finite: bool = True, target: float | None = None,
                 divergence: float | None = None, restore_best: bool = False):
        if mode not in ("auto", "min", "max"):
            raise ValueError(f"mode {mode!r} is none of 'auto', 'min' and 'max'")
        if patience < 1:
            raise ValueError(f"patience {patience} is less than 1")
        self.monitor = monitor
        self.patience = patience
        self.mode = ("min" if is_loss(monitor) or monitor == "smoothed" else "max"
                     ) if mode == "auto" else mode
        self.min_delta = abs(min_delta)
        self.check_finite = check_finite
        self.target = target
        self.divergence = divergence
        self.restore_best = restore_best
        self.best: float | None = None
        self.best_iteration: int | None = None
        self.stopped_because: str | None = None
        self._waited = 0
        self._weights: bytes | None = None
        self._monitor = Monitor(monitor)

    def _better(self, value: float, than: float, by: float = 0.0) -> bool:
        return value < than - by if self.mode == "min" else value > than + by

    def on_train_start(self, solver: Solver) -> None:
        """Begins to count anew."""
        self._monitor.find(solver)
        self.best = self.best_iteration = self.stopped_because = self._weights = None
        self._waited = 0

    def on_iteration_end(self, solver: Solver, report: IterationReport) -> bool:
        """Looks at a value of iterations."""
        value = self._monitor.of_iteration(report)
        return value is not None and self._look(solver, value, report.iteration)

    def on_test_end(self, solver: Solver, report: TestReport) -> bool:
        """Looks at a value of tests."""
        value = self._monitor.of_test(report)
        return value is not None and self._look(solver, value, report.iteration)

    def _look(self, solver: Solver, value: float, iteration: int) -> bool:
        why = None
        if not math.isfinite(value):
            if self.check_finite:
                why = f"is {value}"
            else:
                self._waited += 1
        elif self.best is None or self._better(value, self.best, self.min_delta):
            self.best, self.best_iteration, self._waited = value, iteration, 0
            if self.restore_best:
                self._weights = solver.net.to_bytes()
        else:
            self._waited += 1
        if why is None and math.isfinite(value):
            if self.target is not None and not self._better(self.target, value):
                why = f"has reached {self.target:g}"
            elif self.divergence is not None and self._better(self.divergence, value):
                why = f"is worse than {self.divergence:g}"
        if why is None and self._waited >= self.patience:
            times = "tests" if self._monitor.of_tests else "iterations"
            of_best = ("has never been finite" if self.best is None else
                       f"has not become better than {self.best:g}, of iteration "
                       f"{self.best_iteration}")
            why = f"{of_best} for {self._waited} {times}"
        if why is None:
            return False
        self.stopped_because = f"{self.monitor} {why}"
        return True

    def _restore(self, solver: Solver) -> None:
        if self._weights is not None:
            solver.net.load(self._weights)
            self._weights = None

    def on_train_end(self, solver: Solver) -> None:
        """Puts the best weights back, if restore_best."""
        self._restore(solver)

    def on_exception(self, solver: Solver, error: BaseException) -> None:
        """Puts the best weights back, if restore_best."""
        self._restore(solver)


class TimeLimit(Callback):
    """Stops behind the first iteration that ends later than so many seconds from the start."""

    def __init__(self, seconds: float):
        if not seconds > 0:
            raise ValueError(f"seconds {seconds} is not above 0")
        self.seconds = seconds
        self._end = math.inf

    def on_train_start(self, solver: Solver) -> None:
        """Starts the clock."""
        self._end = time.monotonic() + self.seconds

    def on_iteration_end(self, solver: Solver, report: IterationReport) -> bool:
        """Looks at the clock."""
        return time.monotonic() >= self._end


class CSVLogger(Callback):
    """Writes the history into a CSV file while the solver trains, in the form of History.to_csv():
    a line each test, and each `every` iterations.

    A training that continues with the same path keeps the lines before its first iteration.
    History.read_csv(path) reads it.
    """

    def __init__(self, path: str | os.PathLike[str], every: int = 1):
        if every < 1:
            raise ValueError(f"every {every} is less than 1")
        self.path = os.fspath(path)
        self.every = every
        self._history = History()
        self._columns: list[str] = []

    def _write(self) -> None:
        self._columns = self._history.keys()
        self._history.to_csv(self.path)

    def _append(self, values: dict[str, Any]) -> None:
        if set(values) - set(self._columns):  # the first test
            self._write()
            return
        import csv

        with open(self.path, "a", newline="") as file:
            csv.writer(file).writerow([values.get(name, "") for name in self._columns])

    def on_train_start(self, solver: Solver) -> None:
        """Reads the lines of an earlier part of the run."""
        self._history = History()
        if solver.iteration > 0 and os.path.exists(self.path):
            self._history = History.read_csv(self.path)
            self._history._cut(solver.iteration)
        self._write()

    def on_iteration_end(self, solver: Solver, report: IterationReport) -> None:
        """Adds a line."""
        if report.iteration % self.every == 0:
            self._history._add_iteration(report)
            self._append({name: getattr(report, field) for name, field in _FIELDS.items()})

    def on_test_end(self, solver: Solver, report: TestReport) -> None:
        """Adds a line."""
        self._history._add_test(report)
        net = f"test{report.net or ''}_"
        self._append({"iteration": report.iteration,
                      **{net + name: value for name, value in values_of(report).items()}})

    def on_train_end(self, solver: Solver) -> None:
        """Writes the file once more, with an iteration a line."""
        self._write()

    def on_exception(self, solver: Solver, error: BaseException) -> None:
        """Writes the file once more."""
        self._write()
