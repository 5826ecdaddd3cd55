"""Callbacks that show how far a training is: a bar of tqdm, and curves in Jupyter."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from ._callbacks import Callback
from ._crema import IterationReport, TestReport
from ._history import values_of

if TYPE_CHECKING:
    from ._solver import Solver


def in_notebook() -> bool:
    """Whether this is a kernel of Jupyter."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and getattr(shell, "kernel", None) is not None


def has_tqdm() -> bool:
    """Whether the package tqdm is installed."""
    return _has("tqdm")


def _has(package: str) -> bool:
    import importlib.util

    return importlib.util.find_spec(package) is not None


def _bar_class() -> Any:
    try:
        if in_notebook() and _has("ipywidgets"):
            from tqdm.notebook import tqdm as notebook_bar

            return notebook_bar
        from tqdm import tqdm
    except ImportError as error:
        raise ImportError("ProgressBar needs the package tqdm; install it: pip install tqdm, or "
                          "train with progress=False") from error
    return tqdm


class ProgressBar(Callback):
    """A bar of tqdm with the smoothed loss, the outputs of the last test and the learning rate.

    options: of tqdm.tqdm, such as file=sys.stdout, mininterval=1, leave=False, disable=None (no
        bar unless the output is a terminal).

    train() adds one by itself where tqdm is installed and there is a terminal or a notebook.
    ImportError without tqdm.
    """

    def __init__(self, **options: Any):
        _bar_class()
        self._options = options
        self._bar: Any = None
        self._shown: dict[str, str] = {}
        self._last: IterationReport | None = None
        self._drawn = 0.0
        self._total: int | None = None

    def _expect(self, total: int | None) -> None:
        """The number of the last iteration, if train() knows it better than max_iter."""
        self._total = total

    def on_train_start(self, solver: Solver) -> None:
        """Shows the bar."""
        self._shown = {}
        self._last = None
        total = solver.max_iterations if self._total is None else self._total
        settings = {"total": total or None, "initial": solver.iteration, "unit": "it",
                    "dynamic_ncols": True, **self._options}
        self._bar = _bar_class()(**settings)

    def _show(self) -> None:
        if self._last is not None:
            fields = {"loss": f"{self._last.smoothed_loss:.4g}", **self._shown,
                      "lr": f"{self._last.rate:.3g}"}
            self._bar.set_postfix(fields, refresh=False)

    def on_iteration_end(self, solver: Solver, report: IterationReport) -> None:
        """Moves the bar."""
        self._last = report
        now = time.monotonic()
        if now - self._drawn >= 0.1:  # tqdm draws no more often
            self._drawn = now
            self._show()
        self._bar.update(1)

    def on_test_end(self, solver: Solver, report: TestReport) -> None:
        """Shows the outputs from now on."""
        for name, value in list(values_of(report).items())[:4]:
            self._shown[f"test{report.net or ''}_{name}"] = f"{value:.4g}"

    def _close(self) -> None:
        if self._bar is not None:
            self._show()
            self._bar.close()
            self._bar = None

    def on_train_end(self, solver: Solver) -> None:
        """Leaves the bar as it is."""
        self._close()

    def on_exception(self, solver: Solver, error: BaseException) -> None:
        """Leaves the bar as it is."""
        self._close()


class LossCurve(Callback):
    """Curves of the losses and tests, drawn in the output of a Jupyter cell while it trains.

    every: seconds between two drawings.

    Outside of Jupyter it draws nothing. Without it, `solver` as the last line of a cell shows the
    curves of that moment.
    """

    def __init__(self, every: float = 2.0):
        self.every = every
        self._handle: Any = None
        self._next = 0.0

    def on_train_start(self, solver: Solver) -> None:
        """Shows the curves."""
        self._handle = None
        if in_notebook():
            from IPython.display import display  # type: ignore[import-not-found, unused-ignore]

            self._handle = display(solver, display_id=True)
            self._next = time.monotonic() + self.every

    def _draw(self, solver: Solver) -> None:
        if self._handle is not None:
            self._handle.update(solver)

    def on_iteration_end(self, solver: Solver, report: IterationReport) -> None:
        """Draws them anew, if it is time."""
        if self._handle is not None and time.monotonic() >= self._next:
            self._draw(solver)
            self._next = time.monotonic() + self.every

    def on_train_end(self, solver: Solver) -> None:
        """Draws them for the last time."""
        self._draw(solver)

    def on_exception(self, solver: Solver, error: BaseException) -> None:
        """Draws them for the last time."""
        self._draw(solver)
