"""What a Solver has besides training: its history, its observers, and how it looks in Jupyter."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from . import _crema
from ._history import History

Self = TypeVar("Self", bound="SolverRecord")
Hook = Callable[..., Any]


class Observer:
    """Is told what a solver does. A method that returns True asks it to stop."""

    def started(self) -> Any:
        """Before an iteration."""

    def ready(self) -> Any:
        """Between backward and the update."""

    def iterated(self, report: _crema.IterationReport) -> Any:
        """Behind an iteration."""

    def tested(self, report: _crema.TestReport) -> Any:
        """Behind a test."""

    def saved(self, path: str) -> Any:
        """Behind a snapshot."""


# Hooks of the core, and the method of an Observer that each one calls.
_METHODS = {"before_iteration": "started", "before_update": "ready", "on_iteration": "iterated",
            "on_test": "tested", "on_snapshot": "saved"}


class SolverRecord:
    """The part of Solver that records and shows what it does."""

    _core: _crema.Solver
    _arguments: tuple[tuple[Any, ...], dict[str, Any]]
    _history: History
    _observers: list[Observer]
    _recorded: threading.RLock

    def __new__(cls: type[Self], *args: Any, **settings: Any) -> Self:
        made = object.__new__(cls)
        # train() makes the solver anew if it is given other settings.
        made._arguments = (args, settings)
        made._history = History()
        made._observers = []
        made._recorded = threading.RLock()
        return made

    @property
    def history(self) -> History:
        """Losses, rates and times of all iterations, and the outputs of tests, as arrays.

        Every solve, step and test adds to it, also while it is looked at. It can be set, as to
        History.read_csv(path), to go on with that of an earlier process.
        """
        self._record()
        return self._history

    @history.setter
    def history(self, history: History) -> None:
        if not isinstance(history, History):
            raise TypeError(f"history is a crema.History, not {type(history).__name__}")
        self._record()
        self._history = history

    def _record(self) -> None:
        """Takes what the library has noted of iterations, which needs no Python meanwhile."""
        with self._recorded:
            for report in self._core.take_reports():
                self._history._add_iteration(report)

    def _recording(self, hooks: Mapping[str, Hook | None]) -> dict[str, Hook | None]:
        """`hooks`, which record the tests and tell the observers too."""
        observers = list(self._observers)

        def record_test(report: _crema.TestReport) -> None:
            self._record()
            self._history._add_test(report)

        composed: dict[str, Hook | None] = dict(hooks)
        for name, method in _METHODS.items():
            calls: list[Hook] = []
            if name == "on_test":
                calls.append(record_test)
            own = hooks.get(name)
            if own is not None:
                calls.append(own)
            calls += [getattr(observer, method) for observer in observers
                      if getattr(type(observer), method) is not getattr(Observer, method)]
            if calls:
                composed[name] = self._all_of(calls)
        return composed

    def _all_of(self, calls: list[Hook]) -> Hook:
        """One hook that calls all, and stops the solver if one of them returns True."""

        def call(*args: Any) -> None:
            stops = False
            for each in calls:
                stops |= each(*args) is True
            if stops:
                self._core.stop()

        return call

    def _repr_html_(self) -> str:
        """For Jupyter: where the training stands, and its curves; also while another thread trains.
        """
        from html import escape

        core = self._core
        of = f" of {core.max_iterations}" if core.max_iterations else ""
        said = f"crema.Solver {core.type}, iteration {core.iteration}{of}, rate {core.rate:.4g}"
        return f"<div><div>{escape(said)}</div>{self.history._repr_html_()}</div>"
