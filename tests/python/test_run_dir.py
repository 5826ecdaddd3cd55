"""crema.train(run_dir=...): the folder of a run, and what TensorBoard reads in it."""

import json
import math
import os
import struct

import pytest

import crema


def records_of(folder, kind=None):
    with open(os.path.join(folder, "metrics.jsonl"), encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    return [each for each in records if kind is None or each["kind"] == kind]


def test_a_run_has_a_folder(solver_file, tmp_path):
    folder = tmp_path / "run"
    solver = crema.train(solver_file, run_dir=folder, base_lr=0.01, display=5)
    info = json.loads((folder / "run.json").read_text())
    settings = {each["name"]: each["value"] for each in info["settings"]}
    assert float(settings["base_lr"]) == pytest.approx(0.01)
    assert [each["iteration"] for each in records_of(folder, "TRAIN")] == [1, 6, 11, 16, 20]
    assert [each["iteration"] for each in records_of(folder, "TEST")] == [0, 10, 20]
    losses = solver.history.loss
    for each in records_of(folder, "TRAIN"):
        assert each["loss"] == losses[each["iteration"] - 1]
    end = records_of(folder)[-1]
    assert (end["kind"], end["reason"]) == ("END", "FINISHED")
    assert (folder / "snapshots" / "last.caffemodel").exists()
    page = (folder / "report.html").read_text()
    assert "finished" in page and "chart-loss" in page


def test_none_without_run_dir(solver_file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    crema.train(solver_file)
    assert not (tmp_path / "runs").exists()
    crema.train(solver_file, run_dir=True, overwrite=True)
    crema.train(solver_file, run_dir=True, overwrite=True)
    assert len(list((tmp_path / "runs").iterdir())) == 2


def test_a_run_goes_on_in_its_folder(solver_file, tmp_path):
    folder = tmp_path / "run"
    crema.train(solver_file, run_dir=folder, display=1, iterations=13)
    with pytest.raises(crema.Error, match="has a run already"):
        crema.train(solver_file, run_dir=folder, overwrite=True)
    crema.train(solver_file, run_dir=True, display=1, resume=True)  # from iteration 10
    assert [each["iteration"] for each in records_of(folder, "TRAIN")] == list(range(1, 21))
    assert [each["iteration"] for each in records_of(folder, "RESUME")] == [10]


def test_what_ends_a_run(solver_file, tmp_path):
    class Failing(crema.Callback):
        def on_iteration_end(self, solver, report):
            if report.iteration == 3:
                raise KeyError("of the user")

    class Stopping(crema.Callback):
        def on_iteration_end(self, solver, report):
            return report.iteration == 3

    class Interrupting(crema.Callback):
        def on_iteration_end(self, solver, report):
            if report.iteration == 3:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        crema.train(solver_file, Interrupting(), run_dir=tmp_path / "interrupted")
    end = records_of(tmp_path / "interrupted")[-1]
    assert end["reason"] == "STOPPED" and "text" not in end
    with pytest.raises(KeyError):
        crema.train(solver_file, Failing(), run_dir=tmp_path / "failed")
    end = records_of(tmp_path / "failed")[-1]
    assert (end["reason"], end["text"]) == ("FAILED", "'of the user'")
    crema.train(solver_file, Stopping(), run_dir=tmp_path / "stopped")
    assert records_of(tmp_path / "stopped")[-1]["reason"] == "STOPPED"


def as_float32(value):
    return struct.unpack("f", struct.pack("f", float(value)))[0]


def test_tensorboard_reads_the_values_of_metrics(solver_file, tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing import event_accumulator
    from tensorboard.plugins.hparams import plugin_data_pb2

    folder = tmp_path / "run"
    crema.train(solver_file, run_dir=folder, display=1, iterations=13)
    crema.train(solver_file, run_dir=folder, display=1, resume=True)
    read = event_accumulator.EventAccumulator(
        str(folder), size_guidance={event_accumulator.SCALARS: 0, event_accumulator.TENSORS: 0})
    read.Reload()
    tags = read.Tags()
    expected = {}
    for record in records_of(folder):
        step = record["iteration"]
        if record["kind"] == "TRAIN":
            for name in ("loss", "smoothed_loss", "rate", "gradient_norm", "memory", "seconds",
                         "epoch", "data_wait", "images_per_second"):
                if name in record:
                    expected.setdefault(f"train/{name}", []).append((step, record[name]))
            for name, value in record["outputs"].items():
                expected.setdefault(f"train/output/{name}", []).append((step, value))
        if record["kind"] == "TEST":
            expected.setdefault("test_loss", []).append((step, record["test_loss"]))
            for name, value in record["outputs"].items():
                expected.setdefault(f"test/{name}", []).append((step, value))
    assert "train/loss" in expected and "test_loss" in expected
    assert set(tags["scalars"]) == set(expected)
    for tag, points in expected.items():
        found = [(each.step, each.value) for each in read.Scalars(tag)]
        assert found == [(step, as_float32(value)) for step, value in points], tag
        assert all(math.isfinite(each.wall_time) for each in read.Scalars(tag))

    assert tags["graph"]
    assert len({node.name for node in read.Graph().node}) == len(read.Graph().node) > 0
    histograms = [tag for tag in tags["histograms"] if tag.startswith("weights/")]
    assert histograms and any(tag.startswith("gradients/") for tag in tags["histograms"])
    for tag in histograms:
        for each in read.Histograms(tag):
            value = each.histogram_value
            assert sum(value.bucket) == value.num > 0
            assert value.bucket_limit[-1] == value.max

    metadata = read.SummaryMetadata("_hparams_/session_start_info")
    assert metadata.plugin_data.plugin_name == "hparams"
    data = plugin_data_pb2.HParamsPluginData.FromString(metadata.plugin_data.content)
    hparams = data.session_start_info.hparams
    settings = {each["name"]: each["value"]
                for each in json.loads((folder / "run.json").read_text())["settings"]}
    assert hparams["base_lr"].number_value == float(settings["base_lr"])
    assert hparams["lr_policy"].string_value == settings["lr_policy"]
