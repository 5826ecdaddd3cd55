"""crema.train: callbacks, stopping, other settings, progress."""

import io
import math
import os
import traceback

import numpy as np
import pytest

import crema


class Recorder(crema.Callback):
    """Notes what it is told."""

    def __init__(self):
        self.told = []

    def on_train_start(self, solver):
        self.told.append(("train_start", solver.iteration))

    def on_iteration_start(self, solver):
        self.told.append(("iteration_start", solver.iteration))

    def on_gradients_ready(self, solver):
        self.told.append(("gradients", solver.iteration))

    def on_iteration_end(self, solver, report):
        self.told.append(("iteration_end", report.iteration))

    def on_test_end(self, solver, report):
        self.told.append(("test_end", report.iteration))

    def on_snapshot(self, solver, path):
        self.told.append(("snapshot", os.path.basename(path)))

    def on_train_end(self, solver):
        self.told.append(("train_end", solver.iteration))

    def on_exception(self, solver, error):
        self.told.append(("exception", error))

    def of(self, *kinds):
        return [each for each in self.told if each[0] in kinds]


def test_events_in_their_order(solver_file):
    recorder = Recorder()
    solver = crema.Solver(solver_file)
    assert crema.train(solver, callbacks=[recorder]) is solver
    assert solver.iteration == 20
    assert recorder.told[:5] == [("train_start", 0), ("test_end", 0), ("iteration_start", 0),
                                 ("gradients", 0), ("iteration_end", 0)]
    assert len(recorder.of("iteration_end")) == 20
    assert recorder.of("test_end") == [("test_end", 0), ("test_end", 10), ("test_end", 20)]
    assert recorder.of("snapshot") == [("snapshot", "snap_iter_10.solverstate"),
                                       ("snapshot", "snap_iter_20.solverstate")]
    assert recorder.told[-1] == ("train_end", 20) and not recorder.of("exception")
    before = len(recorder.told)
    solver.step(1)  # no longer told
    assert len(recorder.told) == before


def test_a_solver_is_made_of_a_path_with_settings(solver_file):
    solver = crema.train(solver_file, base_lr=0.5, lr_policy="fixed", max_iter=3,
                         net={"ip": {"num_output": 4}, "conv.num_output": 6})
    assert solver.iteration == 3
    assert solver.history.rate.tolist() == pytest.approx([0.5] * 3)
    assert solver.net.blobs["ip_blob"].shape == (5, 4)
    assert solver.net.blobs["conv"].shape[1] == 6


def test_other_settings_of_a_solver_that_has_not_trained(solver_file):
    solver = crema.Solver(solver_file, {"momentum": 0.5})
    solver.net.params["conv"][0].data[...] = 3
    crema.train(solver, iterations=1, base_lr=1e-6, weight_decay=0, **{"net.ip.num_output": 7})
    assert solver.learning_rate == pytest.approx(1e-6, rel=1e-3)
    assert solver.net.params["ip"][1].shape == (7,)
    np.testing.assert_allclose(solver.net.params["conv"][0].data, 3, atol=1e-2)
    settings = solver._arguments[1]["settings"]
    assert settings["momentum"] == 0.5 and settings["base_lr"] == 1e-6
    with pytest.raises(ValueError, match="1 iterations.*base_lr.*restore"):
        crema.train(solver, base_lr=0.1)


def test_a_wrong_setting_is_answered_by_the_nearest(solver_file):
    with pytest.raises(crema.Error, match="base_lr"):
        crema.train(solver_file, bas_lr=0.1)
    with pytest.raises(crema.Error, match="num_output"):
        crema.train(solver_file, net={"conv": {"num_outputs": 3}})


def test_a_callback_may_stop(solver_file, tmp_path):
    class Stop(crema.Callback):
        def on_iteration_end(self, solver, report):
            return report.iteration == 4

    recorder = Recorder()
    solver = crema.train(solver_file, callbacks=[Stop(), recorder])
    assert solver.iteration == 5
    assert (tmp_path / "snap_iter_5.solverstate").exists()
    assert recorder.told[-1] == ("train_end", 5)
    assert recorder.of("iteration_end")[-1] == ("iteration_end", 4)

    class StopAtTest(crema.Callback):
        def on_test_end(self, solver, report):
            return report.iteration == 10

    assert crema.train(solver_file, callbacks=[StopAtTest()], overwrite=True).iteration == 10


def test_an_exception_keeps_its_traceback(solver_file):
    class Mine(Exception):
        pass

    class Fails(crema.Callback):
        def on_test_end(self, solver, report):
            if report.iteration == 10:
                raise Mine("enough")

    recorder = Recorder()
    solver = crema.Solver(solver_file)
    with pytest.raises(Mine, match="enough") as caught:
        crema.train(solver, callbacks=[recorder, Fails()])
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[-1] == "on_test_end"
    assert recorder.told[-1] == ("exception", caught.value) and not recorder.of("train_end")
    assert not solver._observers
    crema.train(solver, iterations=1)  # it goes on


def test_an_exception_at_the_start(solver_file):
    class Fails(crema.Callback):
        def on_train_start(self, solver):
            raise KeyError("no")

    first, last = Recorder(), Recorder()
    with pytest.raises(KeyError):
        crema.train(solver_file, callbacks=[first, Fails(), last])
    assert [kind for kind, _ in first.told] == ["train_start", "exception"] and not last.told


def test_what_is_no_callback(solver_file):
    with pytest.raises(TypeError, match=r"Recorder\(\)"):
        crema.train(solver_file, callbacks=[Recorder])
    assert crema.train(solver_file, callbacks=Recorder(), iterations=1).iteration == 1
    with pytest.raises(TypeError, match="derive"):
        crema.train(solver_file, callbacks=[print])


def test_a_callback_may_test_and_snapshot(solver_file):
    class Tests(crema.Callback):
        def __init__(self):
            self.seen = []

        def on_iteration_end(self, solver, report):
            if report.iteration == 3:
                self.seen.append(solver.test()[0].outputs[0][0])
                solver.snapshot()

    callback, recorder = Tests(), Recorder()
    solver = crema.train(solver_file, callbacks=[callback, recorder])
    assert callback.seen == ["loss"]
    assert solver.history.test.iteration.tolist() == [0, 4, 10, 20]
    assert len(solver.history) == 20 and len(recorder.of("iteration_end")) == 20
    assert recorder.of("snapshot")[0] == ("snapshot", "snap_iter_4.solverstate")


def test_gradients_may_be_changed(solver_file):
    class Clear(crema.Callback):
        def on_gradients_ready(self, solver):
            for blobs in solver.net.params.values():
                for blob in blobs:
                    blob.diff[...] = 0

    solver = crema.Solver(solver_file, {"weight_decay": 0})
    before = solver.net.params["ip"][0].data.copy()
    crema.train(solver, callbacks=[Clear()], iterations=2)
    np.testing.assert_array_equal(solver.net.params["ip"][0].data, before)


def test_iterations_and_resume(solver_file):
    first = crema.train(solver_file, iterations=10)
    assert first.iteration == 10
    recorder = Recorder()
    second = crema.train(solver_file, callbacks=[recorder], resume=True)
    assert recorder.told[0] == ("train_start", 10) and second.iteration == 20
    assert second.history.iteration.tolist() == list(range(10, 20))
    whole = crema.Solver(solver_file)
    whole.solve()
    np.testing.assert_array_equal(whole.net.params["ip"][0].data, second.net.params["ip"][0].data)


def test_weights_to_start_from(solver_file, tmp_path):
    solver = crema.Solver(solver_file)
    solver.net.params["conv"][0].data[...] = 5
    solver.net.save(tmp_path / "w.caffemodel")
    tuned = crema.train(solver_file, weights=tmp_path / "w.caffemodel", iterations=0)
    assert (tuned.net.params["conv"][0].data == 5).all()


# Callbacks that come with Crema.

class Values:
    """Reports of tests with these values of `accuracy`, as EarlyStopping is told of them."""

    class Report:
        net = 0

        def __init__(self, iteration, value):
            self.iteration = iteration
            self.outputs = [("accuracy", 0, value), ("loss", 0, 1 / (value or 1))]


class FakeNet:
    outputs = ["accuracy", "loss"]

    def __init__(self):
        self.weights = None

    def to_bytes(self):
        return b"weights"

    def load(self, weights):
        self.weights = weights


class FakeSolver:
    def __init__(self):
        self.net = FakeNet()
        self.test_nets = [FakeNet()]


def stopped_at(callback, values):
    solver = FakeSolver()
    callback.on_train_start(solver)
    for iteration, value in enumerate(values):
        if callback.on_test_end(solver, Values.Report(iteration, value)):
            callback.on_train_end(solver)
            return iteration, solver
    callback.on_train_end(solver)
    return None, solver


def test_early_stopping_waits_for_a_better_value():
    stop = crema.EarlyStopping("accuracy", patience=2)
    assert stopped_at(stop, [0.1, 0.5, 0.4, 0.6, 0.6, 0.5, 0.9])[0] == 5
    assert (stop.best, stop.best_iteration) == (0.6, 3)
    assert "0.6" in stop.stopped_because and "2 tests" in stop.stopped_because
    assert stopped_at(stop, [0.1, 0.2, 0.3])[0] is None and stop.stopped_because is None
    assert stopped_at(crema.EarlyStopping("test_accuracy", 2, min_delta=0.2),
                      [0.1, 0.2, 0.25, 0.9])[0] == 2


def test_early_stopping_of_a_loss_looks_for_less():
    assert stopped_at(crema.EarlyStopping("test_loss", patience=1), [0.1, 0.2, 0.1])[0] == 2
    assert stopped_at(crema.EarlyStopping("accuracy", patience=1, mode="min"), [0.1, 0.2])[0] == 1


def test_early_stopping_at_bounds():
    assert stopped_at(crema.EarlyStopping("accuracy", 99, target=0.9), [0.1, 0.9, 1.0])[0] == 1
    assert stopped_at(crema.EarlyStopping("accuracy", 99, divergence=0.2), [0.5, 0.1])[0] == 1
    assert stopped_at(crema.EarlyStopping("accuracy", 99), [0.5, math.nan])[0] == 1
    never = crema.EarlyStopping("accuracy", 2, check_finite=False)
    assert stopped_at(never, [math.nan, math.nan])[0] == 1 and "never" in never.stopped_because


def test_early_stopping_restores_the_best():
    _, solver = stopped_at(crema.EarlyStopping("accuracy", 1, restore_best=True), [0.5, 0.4])
    assert solver.net.weights == b"weights"
    _, solver = stopped_at(crema.EarlyStopping("accuracy", 1), [0.5, 0.4])
    assert solver.net.weights is None


def test_early_stopping_in_a_training(solver_file):
    stop = crema.EarlyStopping("loss", patience=3, min_delta=1e9)
    assert crema.train(solver_file, callbacks=[stop]).iteration == 4
    stop = crema.EarlyStopping("test_loss", patience=1, min_delta=1e9, restore_best=True)
    solver = crema.Solver(solver_file, {"base_lr": 0.1})
    start = solver.net.params["ip"][0].data.copy()
    crema.train(solver, callbacks=[stop], overwrite=True)
    assert solver.iteration == 10 and stop.best_iteration == 0
    np.testing.assert_array_equal(solver.net.params["ip"][0].data, start)


def test_a_value_that_there_is_not(solver_file):
    with pytest.raises(ValueError, match="did you mean 'test_loss'.*smoothed"):
        crema.train(solver_file, callbacks=[crema.EarlyStopping("tst_loss")])
    with pytest.raises(ValueError, match="auto"):
        crema.EarlyStopping(mode="best")


def test_time_limit(solver_file):
    assert crema.train(solver_file, callbacks=[crema.TimeLimit(1e-9)]).iteration == 1
    with pytest.raises(ValueError, match="above 0"):
        crema.TimeLimit(0)


def test_csv_logger(solver_file, tmp_path):
    path = tmp_path / "log.csv"
    solver = crema.train(solver_file, callbacks=[crema.CSVLogger(path)], iterations=12)
    state = solver.snapshot()
    read = crema.History.read_csv(path)
    for name in solver.history.keys():
        np.testing.assert_array_equal(read[name], solver.history[name])
    solver.restore(state)
    crema.train(solver, callbacks=[crema.CSVLogger(path)])
    assert crema.History.read_csv(path).iteration.tolist() == list(range(20))
    assert crema.History.read_csv(path).test.iteration.tolist() == [0, 10, 20]


def test_csv_logger_writes_while_it_trains(solver_file, tmp_path):
    path = tmp_path / "log.csv"

    class Looks(crema.Callback):
        def __init__(self):
            self.lines = []

        def on_iteration_end(self, solver, report):
            self.lines.append(len(crema.History.read_csv(path)))

    looks = Looks()
    crema.train(solver_file, callbacks=[crema.CSVLogger(path, every=2), looks], iterations=6)
    assert looks.lines == [1, 1, 2, 2, 3, 3]


def test_progress_bar(solver_file):
    pytest.importorskip("tqdm", reason="needs the package tqdm")
    out = io.StringIO()
    crema.train(solver_file, callbacks=[crema.ProgressBar(file=out, mininterval=0)])
    shown = out.getvalue().split("\r")[-1]
    assert "20/20" in shown and "loss=" in shown and "lr=" in shown and "test_loss=" in shown
    out = io.StringIO()
    crema.train(solver_file, callbacks=[crema.ProgressBar(file=out)], iterations=3,
                overwrite=True)
    assert "3/3" in out.getvalue()


def test_no_bar_unless_somebody_looks(solver_file, capsys):
    crema.train(solver_file, iterations=2)
    crema.train(solver_file, iterations=2, progress=False)
    assert "it/s" not in capsys.readouterr().err


def test_a_bar_on_request(solver_file, capsys):
    pytest.importorskip("tqdm", reason="needs the package tqdm")
    crema.train(solver_file, iterations=2, progress=True)
    assert "2/2" in capsys.readouterr().err


def test_loss_curve_is_drawn_in_jupyter(solver_file, monkeypatch):
    import sys
    import types

    drawn = []

    class Handle:
        def update(self, shown):
            drawn.append(len(shown.history))

    def display(shown, display_id):
        drawn.append("first")
        return Handle()

    jupyter = types.ModuleType("IPython")
    jupyter.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    jupyter.display = types.ModuleType("IPython.display")
    jupyter.display.display = display
    monkeypatch.setitem(sys.modules, "IPython", jupyter)
    monkeypatch.setitem(sys.modules, "IPython.display", jupyter.display)
    crema.train(solver_file, callbacks=[crema.LossCurve(every=0)], iterations=3, progress=False)
    assert drawn == ["first", 1, 2, 3, 3]


def test_snapshots_of_another_run_are_refused(solver_file, tmp_path):
    crema.train(solver_file, iterations=10)
    before = sorted(each.name for each in tmp_path.glob("snap*"))
    assert before
    with pytest.raises(crema.Error, match="of another run.*resume=True.*overwrite=True"):
        crema.train(solver_file)
    # The check is of what the run would write.
    crema.train(solver_file, iterations=1, snapshot=0, snapshot_after_train=False)
    crema.train(solver_file, iterations=1, snapshot_prefix=str(tmp_path / "other"))
    assert crema.train(solver_file, resume=True, iterations=1).iteration == 11
    assert crema.train(solver_file, overwrite=True, iterations=1).iteration == 1
    # One solver goes on with its own files.
    solver = crema.train(solver_file, overwrite=True, iterations=10)
    crema.train(solver, iterations=10)


def test_a_function_is_no_callback(solver_file):
    with pytest.raises(TypeError, match="no crema.Callback.*solver.on_iteration"):
        crema.train(solver_file, lambda *values: None)
