"""solver.history: what was reported, as arrays and tables."""

import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import crema

ACCURACY = """
layer { name: 'accuracy' type: 'Accuracy' bottom: 'ip_blob' bottom: 'label' top: 'accuracy'
  include { phase: TEST } }
"""


@pytest.fixture
def tested_solver(small_net, solver_file, tmp_path):
    (tmp_path / "net.prototxt").write_text(small_net + ACCURACY)
    return crema.Solver(solver_file, {"average_loss": 4})


def test_arrays(tested_solver):
    solver, losses = tested_solver, []
    solver.on_iteration = lambda report: losses.append(report.loss)
    assert len(solver.history) == 0 and solver.history.loss.shape == (0,)
    solver.solve()
    history = solver.history
    assert history.iteration.tolist() == list(range(20)) and history.iteration.dtype == np.int64
    assert history.loss.tolist() == losses and history.loss.dtype == np.float64
    np.testing.assert_allclose(history.smoothed[3:],
                               np.convolve(losses, np.ones(4) / 4, "valid"), rtol=1e-9)
    assert (history.seconds > 0).all() and (history.data_wait >= 0).all()
    assert history.rate[0] == pytest.approx(0.01) and (np.diff(history.rate) < 0).all()
    assert history.images.dtype == np.int64 and history["loss"].tolist() == losses
    history.loss[0] = -1  # a copy
    assert history.loss[0] == losses[0]


def test_tests_by_the_names_of_outputs(tested_solver):
    reports = []
    tested_solver.on_test = reports.append
    tested_solver.solve()
    test = tested_solver.history.test
    assert test.iteration.tolist() == [0, 10, 20] == [each.iteration for each in reports]
    assert sorted(test) == ["accuracy", "loss"]
    expected = [dict((name, value) for name, _, value in each.outputs) for each in reports]
    assert test["accuracy"].tolist() == [each["accuracy"] for each in expected]
    assert test["loss"].tolist() == [each["loss"] for each in expected]
    assert tested_solver.history["test_accuracy"].tolist() == test["accuracy"].tolist()
    assert test.loss.tolist() == [each.loss for each in reports]
    with pytest.raises(KeyError, match="did you mean 'accuracy'"):
        test["acuracy"]
    with pytest.raises(KeyError, match="did you mean 'test_accuracy'"):
        tested_solver.history["tes_accuracy"]
    assert "test_loss" in tested_solver.history and "x" not in tested_solver.history


def test_a_solver_that_goes_back(solver_file):
    solver = crema.Solver(solver_file)
    solver.step(5)
    state = solver.snapshot()
    solver.step(7)
    first = solver.history.loss
    solver.restore(state)
    assert len(solver.history) == 12  # until it trains again
    solver.step(1)
    assert solver.history.iteration.tolist() == list(range(6))
    assert solver.history.test.iteration.tolist() == [0]
    solver.step(14)
    assert solver.history.iteration.tolist() == list(range(20))
    np.testing.assert_array_equal(solver.history.loss[:12], first)
    assert solver.history.test.iteration.tolist() == [0, 10]


def test_csv_and_back(tested_solver, tmp_path):
    tested_solver.solve()
    path = tmp_path / "history.csv"
    tested_solver.history.to_csv(path)
    assert path.read_text().splitlines()[0] == (
        "iteration,loss,smoothed,rate,seconds,data_wait,images,test_loss,test_accuracy")
    read = crema.History.read_csv(path)
    for name in read.keys():
        np.testing.assert_array_equal(read[name], tested_solver.history[name])
    assert read.test.iteration.tolist() == [0, 10, 20]
    other = crema.Solver(tested_solver._arguments[0][0])
    other.history = read
    other.restore(str(tmp_path / "snap_iter_10.solverstate"))
    other.step(1)
    assert other.history.iteration.tolist() == list(range(11))
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="no history"):
        crema.History.read_csv(tmp_path / "x.csv")
    with pytest.raises(TypeError, match="History"):
        other.history = {}


def test_frame(tested_solver, tmp_path):
    pd = pytest.importorskip("pandas", reason="needs the package pandas")
    tested_solver.solve()
    frame = tested_solver.history.to_pandas()
    assert isinstance(frame, pd.DataFrame) and frame.index.name == "iteration"
    assert frame.index.tolist() == list(range(21))
    assert [frame.index.name, *frame.columns] == tested_solver.history.keys()
    tests = frame["test_accuracy"].dropna()
    assert tests.index.tolist() == [0, 10, 20]
    assert tests.tolist() == tested_solver.history.test["accuracy"].tolist()
    assert frame["loss"].dropna().tolist() == tested_solver.history.loss.tolist()
    assert float(frame["loss"].mean()) > 0
    frame.assign(tested_by="me", tester_x=1).to_csv(tmp_path / "frame.csv")
    read = crema.History.read_csv(tmp_path / "frame.csv")
    assert read.keys() == tested_solver.history.keys()
    for name in read.keys():
        np.testing.assert_allclose(read[name], tested_solver.history[name])


def test_without_pandas(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        crema.History().to_pandas()


def test_it_may_be_read_while_another_thread_trains(solver_file):
    solver = crema.Solver(solver_file, {"max_iter": 300, "test_interval": 50, "snapshot": 0})
    thread = threading.Thread(target=lambda: solver.solve())
    thread.start()
    looks = 0
    while thread.is_alive():
        assert len(solver.history.loss) >= 0
        solver.history["smoothed"], solver._repr_html_()
        looks += 1
        time.sleep(0.001)
    thread.join()
    assert looks > 1 and len(solver.history) == 300


def test_repr(tested_solver):
    assert repr(tested_solver.history) == "<crema.History, 0 iterations>"
    tested_solver.step(1)
    assert "1 iterations (last: loss " in repr(tested_solver.history)
    assert "1 tests" in repr(tested_solver.history.test)


def test_iterations_are_recorded_without_python(solver_file):
    solver = crema.Solver(solver_file)
    assert solver._recording({"on_iteration": None})["on_iteration"] is None
    seen = []
    solver.on_iteration = lambda report: seen.append(len(solver.history))
    solver.step(3)
    assert seen == [1, 2, 3]


def test_the_module_needs_no_numpy_to_be_imported():
    script = "import sys, crema; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0
