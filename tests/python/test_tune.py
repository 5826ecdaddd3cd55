"""The trial of models/lenet/tune: a function of its configuration, and exact where it resumes."""

import os
import shutil
import subprocess
import sys

import pytest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "models", "lenet", "tune"))

import lenet_tune  # noqa: E402


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The databases of the digits that ship."""
    folder = tmp_path_factory.mktemp("mini")
    shipped = os.path.join(ROOT, "data", "mnist", "mini")
    for name in os.listdir(shipped):
        if name.endswith(".gz"):
            shutil.copy(os.path.join(shipped, name), folder)
    subprocess.run([sys.executable, "-m", "crema", "convert-mnist", str(folder)], check=True,
                   capture_output=True)
    return str(folder)


def config_of(data, **changes):
    return {"data": data, "seed": 1, "iterations": 30, "round": 10, "base_lr": 0.02,
            "momentum": 0.9, "outputs": 50, **changes}


def run(config, saved=None, keep=None):
    made = []

    def report(results, folder):
        made.append(results)
        if keep is not None and len(made) == 1:
            shutil.copytree(folder, keep)

    lenet_tune.train(config, report, saved)
    return made


def test_a_trial_is_a_function_of_its_configuration(data):
    first = run(config_of(data))
    assert [each["iteration"] for each in first] == [10, 20, 30]
    assert run(config_of(data)) == first
    for change in ({"seed": 2}, {"base_lr": 0.01}, {"momentum": 0.8}, {"outputs": 60}):
        assert run(config_of(data, **change)) != first, change


def test_a_trial_resumes_exactly(data, tmp_path):
    whole = run(config_of(data), keep=tmp_path / "saved")
    assert run(config_of(data), saved=tmp_path / "saved") == whole[1:]


def test_ray_runs_trials_and_resumes_one_that_failed(data, tmp_path, monkeypatch):
    ray = pytest.importorskip("ray", reason="Ray Tune is not installed: pip install 'ray[tune]'")
    tune = pytest.importorskip("ray.tune")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))  # of the workers
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False,
             object_store_memory=100 << 20)
    try:
        failed_once = str(tmp_path / "failed")

        def fails_behind_a_round(config):
            """The trial, which fails in its second round, the first time."""
            if tune.get_checkpoint() is not None:
                lenet_tune.trial(config)
                return

            def report(results, folder):
                if results["iteration"] > config["round"]:
                    open(failed_once, "w").close()
                    raise RuntimeError("the machine goes down")
                tune.report(results, checkpoint=tune.Checkpoint.from_directory(folder))

            lenet_tune.train(config, report)

        def fit(trial):
            results = tune.Tuner(
                trial, param_space=config_of(data),
                run_config=tune.RunConfig(
                    storage_path=str(tmp_path / "results"), verbose=0,
                    failure_config=tune.FailureConfig(max_failures=1))).fit()
            assert not results.errors
            return results[0].metrics

        whole, resumed = fit(lenet_tune.trial), fit(fails_behind_a_round)
        assert os.path.exists(failed_once)
        here = run(config_of(data))[-1]
        for metrics in (whole, resumed):
            assert {name: metrics[name] for name in here} == here
    finally:
        ray.shutdown()
