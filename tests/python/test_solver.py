"""Solvers: steps, snapshots, callbacks, Ctrl-C."""

import contextlib
import gc
import os
import shutil
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import caffe
import crema


def test_step_and_solve(solver_file, tmp_path):
    solver = caffe.SGDSolver(solver_file)
    assert solver.iter == 0 and len(solver.test_nets) == 1
    assert isinstance(solver.net, caffe.Net)
    before = solver.net.params["ip"][0].data.copy()
    solver.step(1)
    assert solver.iter == 1
    assert (solver.net.params["ip"][0].data != before).any()
    solver.solve()
    assert solver.iter == 20
    assert (tmp_path / "snap_iter_10.caffemodel").exists()
    assert (tmp_path / "snap_iter_20.solverstate").exists()


def test_get_solver_and_types(solver_file):
    assert type(caffe.get_solver(solver_file)) is caffe.SGDSolver
    adam = caffe.AdamSolver(solver_file)
    assert adam.type == "Adam"
    adam.step(1)


def test_settings(solver_file):
    solver = crema.Solver(solver_file, {"base_lr": 0.5, "lr_policy": "fixed",
                                        "net.ip.num_output": 4})
    assert solver.learning_rate == pytest.approx(0.5)
    assert solver.net.blobs["ip_blob"].shape == (5, 4)


def test_apply_update(solver_file):
    solver = caffe.SGDSolver(solver_file)
    blob = solver.net.layers[1].blobs[0]
    blob.data[...] = 0
    blob.diff[...] = 1
    solver.apply_update()
    np.testing.assert_allclose(blob.data, -solver.lr, rtol=1e-5)
    assert solver.iter == 0


def test_test_nets_share_weights(solver_file):
    solver = caffe.SGDSolver(solver_file)
    solver.net.params["ip"][0].data[...] = 3
    assert (solver.test_nets[0].params["ip"][0].data == 3).all()


def test_every_blob_of_a_solvers_net_is_live(solver_file):
    solver = caffe.SGDSolver(solver_file)
    solver.step(2)
    assert (solver.net.blobs["conv"].data >= 0).all() and solver.net.blobs["conv"].data.any()
    assert solver.net.blobs["conv"].diff.any()


def test_snapshot_and_restore(solver_file, tmp_path):
    one = caffe.SGDSolver(solver_file)
    one.step(5)
    state = one.snapshot()
    assert os.path.exists(state)
    one.step(5)
    two = caffe.SGDSolver(solver_file)
    two.restore(state)
    assert two.iter == 5
    two.step(5)
    np.testing.assert_array_equal(one.net.params["ip"][0].data, two.net.params["ip"][0].data)


def test_nets_outlive_the_solver(solver_file):
    solver = caffe.SGDSolver(solver_file)
    solver.step(1)
    nets = [solver.net, *solver.test_nets]
    del solver
    gc.collect()
    total = sum(blob.data.sum() + blob.diff.sum() for net in nets for blobs in net.params.values()
                for blob in blobs)
    assert np.isfinite(total)
    nets[0].forward()


def test_callbacks(solver_file):
    solver = caffe.SGDSolver(solver_file)
    told, losses, tests = [], [], []
    solver.add_callback(lambda: told.append("start"), lambda: told.append("ready"))
    solver.on_iteration = lambda report: losses.append(report.loss)
    solver.on_test = tests.append
    solver.step(3)
    assert told == ["start", "ready"] * 3
    assert len(losses) == 3 and all(np.isfinite(losses))
    solver.test()
    assert tests[-1].outputs[0][0] == "loss"


def test_gradients_may_be_changed_before_the_update(solver_file):
    solver = crema.Solver(solver_file, {"weight_decay": 0})
    before = solver.net.params["ip"][0].data.copy()

    def clear():
        for blobs in solver.net.params.values():
            for blob in blobs:
                blob.diff[...] = 0

    solver.add_callback(lambda: None, clear)
    solver.step(1)
    np.testing.assert_array_equal(solver.net.params["ip"][0].data, before)


def test_an_exception_of_a_callback_comes_out(solver_file):
    solver = crema.Solver(solver_file)

    class Mine(Exception):
        pass

    def fail(report):
        raise Mine("enough")

    solver.on_iteration = fail
    with pytest.raises(Mine, match="enough"):
        solver.step(5)
    solver.on_iteration = None
    solver.step(1)


@pytest.mark.parametrize("told", ["a text with \udcff", "", None])
def test_an_exception_that_no_text_describes_comes_out(solver_file, told):
    class Mine(Exception):
        def __str__(self):
            return super().__str__() if told is not None else 1 / 0

    solver = crema.Solver(solver_file)

    def fail(report):
        raise Mine(told)

    solver.on_iteration = fail
    with pytest.raises(Mine) as caught:
        solver.step(5)
    assert caught.value.args == (told,)


def test_a_snapshot_whose_name_is_no_utf8(solver_file, tmp_path):
    told = []
    with open(solver_file) as file:
        solver = crema.Solver(file.read().replace("/snap'", "/s\\377'"))
    solver.on_snapshot = told.append
    solver.step(1)
    state = solver.snapshot()
    assert os.path.exists(state) and told == [state] and "\udcff" in state
    other = crema.Solver(solver_file)
    other.restore(state)
    assert other.iteration == 1


def test_solvers_do_not_stay_in_memory(solver_file):
    solver = crema.Solver(solver_file)
    solver.on_iteration = lambda report: solver.iteration
    solver.step(1)
    gone = []
    import weakref

    weakref.finalize(solver._core, gone.append, True)
    del solver
    gc.collect()
    assert gone


def test_ctrl_c_stops_behind_a_snapshot(solver_file, tmp_path):
    solver = crema.Solver(solver_file, {"max_iter": 1000000, "display": 0,
                                        "test_interval": 1000000, "snapshot": 1000000})
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        solver.solve()
    assert 0 < solver.iteration < 1000000
    assert (tmp_path / f"snap_iter_{solver.iteration}.solverstate").exists()
    solver.step(1)  # it goes on


ENDLESS = {"max_iter": 1000000, "display": 0, "test_interval": 1000000, "snapshot": 1000000}


def test_ctrl_c_in_a_hook_waits_for_the_iteration(solver_file, tmp_path):
    solver = crema.Solver(solver_file, ENDLESS)
    told = []

    def interrupt(report):
        if report.iteration == 6:
            signal.raise_signal(signal.SIGINT)
        told.append(report.iteration)

    solver.on_iteration = interrupt
    with pytest.raises(KeyboardInterrupt):
        solver.solve()
    assert told == list(range(7)) and solver.iteration == 7
    assert (tmp_path / "snap_iter_7.solverstate").exists()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_in_a_layer_waits_for_the_iteration(solver_file, small_net, tmp_path):
    (tmp_path / "net.prototxt").write_text(small_net.replace(
        "layer { name: 'loss'", "layer { name: 'press' type: 'Python' bottom: 'ip_blob' top: "
        "'pressed' python_param { module: 'python_layers' layer: 'Interrupts' param_str: '4' } }\n"
        "layer { name: 'loss'").replace("bottom: 'ip_blob' bottom: 'label'",
                                        "bottom: 'pressed' bottom: 'label'"))
    solver = crema.Solver(solver_file, {**ENDLESS, "test_initialization": False})
    with pytest.raises(KeyboardInterrupt):
        solver.step(100)
    assert solver.iteration == 4
    assert (tmp_path / "snap_iter_4.solverstate").exists()


class Interrupted(Exception):
    """What the handler of a script raises."""


@contextlib.contextmanager
def handler_of_the_script():
    """A handler of SIGINT that raises Interrupted, and a signal after 0.3 s."""

    def handler(*_):
        raise Interrupted

    before = signal.signal(signal.SIGINT, handler)
    try:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_handler_of_the_script_stays(solver_file):
    solver = crema.Solver(solver_file, ENDLESS)
    with handler_of_the_script(), pytest.raises(Interrupted):
        solver.solve()


def test_an_interrupt_that_another_error_hides_does_not_come_later(solver_file, tmp_path):
    folder = tmp_path / "gone"
    folder.mkdir()
    solver = crema.Solver(solver_file, {**ENDLESS, "snapshot_prefix": f"{folder}/s"})
    shutil.rmtree(folder)
    folder.write_text("no folder")  # so that the snapshot of the stop fails
    with handler_of_the_script():
        with pytest.raises(crema.Error, match="gone"):
            solver.solve()
        assert solver.step(1) is True


def test_a_hook_or_another_thread_stops_the_solver(solver_file, tmp_path):
    solver = crema.Solver(solver_file, ENDLESS)
    solver.on_iteration = lambda report: report.iteration == 4
    assert solver.solve() is False
    assert solver.iteration == 5
    assert (tmp_path / "snap_iter_5.solverstate").exists()
    solver.on_iteration = lambda report: report.iteration  # a number is no request
    assert solver.step(2) is True
    solver.on_iteration = None
    threading.Timer(0.2, solver.stop).start()
    assert solver.solve() is False
    assert 7 < solver.iteration < 1000000


def test_log_lines_are_the_published_ones(solver_file):
    script = ("import caffe, sys; s = caffe.SGDSolver(sys.argv[1]); caffe.log('hello'); s.solve()")
    run = subprocess.run([sys.executable, "-c", script, solver_file], capture_output=True,
                         text=True, check=True)
    import re

    assert re.search(r"^I\d{4} [\d:.]+ +\d+ \S+\] hello$", run.stderr, re.M)
    assert re.search(r"\] Iteration 0 \(.*\), loss = [\d.]+", run.stderr)
    assert re.search(r"\]     Train net output #0: loss = [\d.]+ \(\* 1 = [\d.]+ loss\)", run.stderr)
    assert re.search(r"\] Iteration 0, lr = 0.01", run.stderr)
    assert re.search(r"\] Iteration 10, Testing net \(#0\)", run.stderr)
    assert re.search(r"\]     Test net output #0: loss = [\d.]+", run.stderr)
    assert re.search(r"\] Solving small$", run.stderr, re.M)
    assert re.search(r"\] Snapshotting to binary proto file .*snap_iter_10.caffemodel\n"
                     r"I.*\] Snapshotting solver state to binary proto file "
                     r".*snap_iter_10.solverstate", run.stderr)
    assert re.search(r"\] Optimization Done\.$", run.stderr, re.M)
    quiet = subprocess.run([sys.executable, "-c", script, solver_file], capture_output=True,
                           text=True, check=True, env={**os.environ, "GLOG_minloglevel": "2"})
    assert "Iteration" not in quiet.stderr


def test_test_nets_without_tests(solver_file):
    text = open(solver_file).read().replace("test_iter: 2", "test_iter: 0")
    solver = caffe.SGDSolver(text)
    assert len(solver.test_nets) == 1
    solver.step(11)
    assert solver.test() == []
    assert np.isfinite(solver.test_nets[0].forward()["loss"])


def test_what_a_solver_does_by_itself_is_told(solver_file):
    told = []
    solver = crema.Solver(solver_file, {"test_interval": 2, "test_iter": 1, "max_iter": 20,
                                        "snapshot": 2, "early_stop.output": "loss",
                                        "early_stop.patience": 2, "early_stop.min_delta": 100})
    assert solver.end == ""
    solver.on_note = told.append
    assert solver.solve()
    assert solver.end == "early" and solver.iteration == 4
    assert len(told) == 1 and "ends early" in told[0]
    assert solver.step(1) and solver.end == "finished"
    solver.on_iteration = lambda report: True
    assert not solver.step(5) and solver.end == "stopped"


def test_a_rollback_and_the_time_are_told(solver_file):
    told, failed = [], []
    solver = crema.Solver(solver_file, {"max_iter": 8, "snapshot": 2, "on_nan": "ROLLBACK"})
    solver.on_note = told.append

    def spoil(report):
        if report.iteration == 4 and not failed:
            failed.append(True)
            solver.net.params["ip"][0].data[0] = np.nan

    solver.on_iteration = spoil
    assert solver.solve() and solver.end == "finished"
    assert len(told) == 1 and "goes back to the snapshot of iteration 4" in told[0]
    over = crema.Solver(solver_file, {"max_hours": 1e-9, "snapshot": 0,
                                      "snapshot_after_train": False})
    over.solve()
    assert over.end == "time_over"


def test_trials_set_all_back(solver_file, small_net):
    solver = crema.Solver(solver_file)
    solver.step(2)
    before = [blob.data.copy() for blobs in solver.net.params.values() for blob in blobs]
    curve = solver.try_rates(1e-6, 1, steps=20)
    assert 2 <= len(curve.steps) <= 20
    rate, loss, smoothed = curve.steps[0]
    assert rate == pytest.approx(1e-6) and loss > 0 and smoothed > 0
    assert curve.steepest is None or 1e-6 <= curve.steepest <= 1
    assert isinstance(curve.diverged, bool)
    assert solver.iteration == 2
    after = [blob.data for blobs in solver.net.params.values() for blob in blobs]
    assert all((a == b).all() for a, b in zip(before, after))
    with pytest.raises(crema.Error, match="rate"):
        solver.try_rates(-1)
    with pytest.raises(crema.Error):
        solver.try_batches(most=2, iterations=1)  # DummyData has no batches of other sizes
