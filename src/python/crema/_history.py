"""History: what a solver has reported, as arrays."""

from __future__ import annotations

import math
import os
from array import array
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ._crema import IterationReport, TestReport

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

# The columns of training: the field of IterationReport that each one holds.
_FIELDS = {
    "iteration": "iteration",
    "loss": "loss",
    "smoothed": "smoothed_loss",
    "rate": "rate",
    "seconds": "seconds",
    "data_wait": "data_wait",
    "images": "images",
}
_WHOLE = ("iteration", "images")


def _unknown(name: object, known: list[str]) -> KeyError:
    import difflib

    near = difflib.get_close_matches(str(name), known, 1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return KeyError(f"the history has no {name!r}; {hint}It has {', '.join(known) or 'nothing'}")


class TestHistory(Mapping[str, "Array"]):
    """The tests of one test net: the values of its outputs by name, such as test["accuracy"].

    Each value is an array of float64, one element a test, in the order of the tests; NaN where a
    test had no such output. Of an output with several values, "scores[1]" is the one at index 1.
    `iteration` (int64) is the number of iterations that were done before each test, `loss`
    (float64) the weighted sum of the net's losses.
    """

    __test__ = False  # no class of tests for pytest

    def __init__(self) -> None:
        self._iteration = array("q")
        self._loss = array("d")
        self._values: dict[str, array[float]] = {}

    def _add(self, iteration: int, loss: float, values: Mapping[str, float]) -> None:
        self._cut(iteration)
        count = len(self._iteration)
        self._iteration.append(iteration)
        self._loss.append(loss)
        for name, value in values.items():
            column = self._values.setdefault(name, array("d", [math.nan]) * count)
            column.append(value)
        for column in self._values.values():
            if len(column) == count:
                column.append(math.nan)

    def _cut(self, iteration: int) -> None:
        """Forgets the tests from `iteration` on."""
        while self._iteration and self._iteration[-1] >= iteration:
            columns: list[Any] = [self._iteration, self._loss, *self._values.values()]
            for column in columns:
                column.pop()

    @property
    def iteration(self) -> Array:
        """(tests,) int64: iterations done before each test."""
        return _copied(self._iteration)

    @property
    def loss(self) -> Array:
        """(tests,) float64: the weighted sum of the losses."""
        return _copied(self._loss)

    def __getitem__(self, name: str) -> Array:
        if name not in self._values:
            raise _unknown(name, list(self._values))
        return _copied(self._values[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        last = [f"{name} {column[-1]:.4g}" for name, column in self._values.items() if column]
        return f"<crema.TestHistory, {len(self._iteration)} tests{_said(last)}>"


class History:
    """What a solver has reported of its iterations and tests.

        solver.step(100)
        plt.plot(solver.history.iteration, solver.history.loss)
        print(solver.history.test["accuracy"][-1])
        frame = solver.history.to_pandas()

    iteration, loss, smoothed, rate, seconds, data_wait and images are arrays with an element an
    iteration. `iteration` counts from 0, as in the log of `crema train`; `loss` is that of the
    iteration, `smoothed` the mean over average_loss of them, `rate` the learning rate, `seconds`
    its wall time, `data_wait` the part of it that was spent waiting for data, `images` the records
    read. iteration and images are int64, the others float64. Each access makes a copy.

    `test` has the outputs of the first test net by name, `tests` those of all.

    The history belongs to the solver object, and no snapshot holds it. If the solver goes back, by
    restore() or resume(), what was recorded from that iteration on gives way to what follows, so
    that iterations ascend. To keep it between processes, write it with to_csv(), or while the
    solver trains with the callback CSVLogger, and give History.read_csv(path) to solver.history.
    """

    def __init__(self) -> None:
        self._columns: dict[str, Any] = {name: array("q" if name in _WHOLE else "d")
                                         for name in _FIELDS}
        self._tests: list[TestHistory] = []

    # What the solver calls.

    def _add_iteration(self, report: IterationReport) -> None:
        columns = self._columns
        steps = columns["iteration"]
        if steps and steps[-1] >= report.iteration:
            self._cut(report.iteration)
        for name, field in _FIELDS.items():
            columns[name].append(getattr(report, field))

    def _add_test(self, report: TestReport) -> None:
        if self._columns["iteration"] and self._columns["iteration"][-1] >= report.iteration:
            self._cut(report.iteration)  # the solver went back
        while len(self._tests) <= report.net:
            self._tests.append(TestHistory())
        self._tests[report.net]._add(report.iteration, report.loss, values_of(report))

    def _cut(self, iteration: int) -> None:
        """Forgets what was reported from `iteration` on; a test before it stays."""
        steps = self._columns["iteration"]
        while steps and steps[-1] >= iteration:
            for column in self._columns.values():
                column.pop()
        for test in self._tests:
            test._cut(iteration + 1)

    # Arrays.

    @property
    def iteration(self) -> Array:
        """(iterations,) int64: the numbers of the iterations, from 0."""
        return _copied(self._columns["iteration"])

    @property
    def loss(self) -> Array:
        """(iterations,) float64: the loss of each iteration."""
        return _copied(self._columns["loss"])

    @property
    def smoothed(self) -> Array:
        """(iterations,) float64: the mean loss over the last average_loss iterations."""
        return _copied(self._columns["smoothed"])

    @property
    def rate(self) -> Array:
        """(iterations,) float64: the learning rate."""
        return _copied(self._columns["rate"])

    @property
    def seconds(self) -> Array:
        """(iterations,) float64: the wall time of each iteration."""
        return _copied(self._columns["seconds"])

    @property
    def data_wait(self) -> Array:
        """(iterations,) float64: the seconds that each iteration waited for data."""
        return _copied(self._columns["data_wait"])

    @property
    def images(self) -> Array:
        """(iterations,) int64: the records read; 0 where no data layer counts them."""
        return _copied(self._columns["images"])

    @property
    def tests(self) -> list[TestHistory]:
        """The tests of each test net."""
        return list(self._tests)

    @property
    def test(self) -> TestHistory:
        """The tests of the first test net; empty before the first one."""
        return self._tests[0] if self._tests else TestHistory()

    # Tables.

    def _test_columns(self) -> Iterator[tuple[str, TestHistory, Any]]:
        """(name of the column, test, values): test_accuracy, test1_accuracy of the second net."""
        for index, test in enumerate(self._tests):
            for output, column in test._values.items():
                yield f"test{index or ''}_{output}", test, column

    def keys(self) -> list[str]:
        """The names of the columns: those of training, then test_NAME of each output of a test."""
        return [*_FIELDS, *(name for name, _, _ in self._test_columns())]

    def __getitem__(self, name: str) -> Array:
        """A column by name; of an output of a test, "test_accuracy", with an element a test."""
        if name in self._columns:
            return _copied(self._columns[name])
        for column, _, values in self._test_columns():
            if column == name:
                return _copied(values)
        raise _unknown(name, self.keys())

    def __contains__(self, name: object) -> bool:
        return name in self.keys()

    def __len__(self) -> int:
        """The number of iterations."""
        return len(self._columns["iteration"])

    def _rows(self) -> dict[str, list[Any]]:
        """Columns of one length, a row an iteration; None where there is no value."""
        steps = self._columns["iteration"]
        all_steps = sorted({*steps, *(step for test in self._tests for step in test._iteration)})
        place = {step: index for index, step in enumerate(all_steps)}
        rows: dict[str, list[Any]] = {"iteration": list(all_steps)}

        def spread(name: str, at: Any, values: Any) -> None:
            column: list[Any] = [None] * len(all_steps)
            for step, value in zip(at, values):
                column[place[step]] = value
            rows[name] = column

        for name, column in self._columns.items():
            if name != "iteration":
                spread(name, steps, column)
        for name, test, column in self._test_columns():
            spread(name, test._iteration, column)
        return rows

    def to_pandas(self) -> Any:
        """The history as a pandas.DataFrame, with an iteration a row and `iteration` as its index.

        Its columns are those of keys(). A test stands in the row of the iteration that follows it,
        as in the log; NaN elsewhere. ImportError without pandas.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("History.to_pandas needs the package pandas; install it: "
                              "pip install pandas. The arrays are there without it") from error
        rows = self._rows()
        index = pd.Index(rows.pop("iteration"), name="iteration", dtype="int64")
        return pd.DataFrame({name: pd.array(column, dtype="float64")
                             for name, column in rows.items()}, index=index)

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Writes the table of to_pandas() as CSV; needs no pandas. Empty fields have no value."""
        import csv

        rows = self._rows()
        with open(path, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(rows)
            writer.writerows(zip(*rows.values()))

    @classmethod
    def read_csv(cls, path: str | os.PathLike[str]) -> History:
        """The history that to_csv() or the callback CSVLogger wrote.

        Losses of test nets as a whole (TestHistory.loss) are not in it, and are NaN. ValueError if
        it is no such file.
        """
        import csv

        history = cls()
        with open(path, newline="") as file:
            reader = csv.DictReader(file)
            names = reader.fieldnames or []
            missing = [name for name in _FIELDS if name not in names]
            if missing:
                raise ValueError(f"'{os.fspath(path)}' is no history: it has no column "
                                 + ", ".join(missing))
            for row in reader:
                history._add_row(row)
        return history

    def _add_row(self, row: Mapping[str, str]) -> None:
        step = int(float(row["iteration"]))  # pandas may have written it
        tests: dict[int, dict[str, float]] = {}
        for name, value in row.items():
            net, _, output = name.partition("_")
            index = net[len("test"):] or "0"
            is_test = name not in _FIELDS and net.startswith("test") and index.isdecimal()
            if value and is_test:
                tests.setdefault(int(index), {})[output] = float(value)
        for number, values in tests.items():
            while len(self._tests) <= number:
                self._tests.append(TestHistory())
            self._tests[number]._add(step, math.nan, values)
        if row["loss"]:
            for name, column in self._columns.items():
                read = float(row[name])
                column.append(int(read) if name in _WHOLE else read)

    def __repr__(self) -> str:
        said = []
        if len(self):
            said = [f"loss {self._columns['loss'][-1]:.4g}"]
        said += [f"{name} {column[-1]:.4g}" for name, _, column in self._test_columns() if column]
        return f"<crema.History, {len(self)} iterations{_said(said)}>"

    def _repr_html_(self) -> str:
        from ._curves import history_svg

        return history_svg(self)


def values_of(report: TestReport) -> dict[str, float]:
    """The outputs of a test by name; "name[1]" for those with an index."""
    return {name if index == 0 else f"{name}[{index}]": value
            for name, index, value in report.outputs}


def _copied(column: Any) -> Array:
    import numpy as np

    # No view of the column, even for a moment: a solver in another thread may add to it.
    kind = np.int64 if column.typecode == "q" else np.float64
    return np.frombuffer(column.tobytes(), dtype=kind).copy()


def _said(parts: list[str]) -> str:
    return f" (last: {', '.join(parts)})" if parts else ""
