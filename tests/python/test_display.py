"""What a terminal and Jupyter show of nets, blobs and solvers."""

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

import crema
from crema._curves import is_loss, thinned, ticks

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
LENET = os.path.join(ROOT, "models", "lenet", "deploy.prototxt")


def svg_of(html):
    """The first picture of a page, which has to be well-formed."""
    return ElementTree.fromstring(re.search(r"<svg.*?</svg>", html, re.S).group())


def test_summary_is_that_of_the_program():
    net = crema.Net(LENET, optimize=True)
    summary = net.summary()
    assert isinstance(summary, str) and repr(summary) == str(summary).rstrip("\n")
    command = [sys.executable, "-m", "crema", "summary", "--model", LENET, "--phase", "TEST"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def columns(text):  # without the engine: which one is the fastest may change
        return [line[:70].split()[:4] for line in text.splitlines()]

    assert columns(summary) == columns(printed)
    assert "431080 parameters" in summary
    assert net.blobs["data"].shape == (64, 1, 28, 28)


def test_summary_for_programs(small_net):
    rows = crema.Net(small_net).summary().rows
    assert [row["name"] for row in rows] == ["data", "conv", "relu", "ip", "loss"]
    conv = rows[1]
    assert conv["type"] == "Convolution" and conv["tops"] == [(5, 4, 4, 4)]
    assert conv["params"] == 4 * 2 * 9 + 4 and conv["bytes"] >= 5 * 4 * 16 * 4
    assert conv["flops"] == pytest.approx(2 * 5 * 4 * 16 * 18, rel=0.2) and conv["engine"]
    assert rows[0]["tops"] == [(5, 2, 6, 6), (5, 1, 1, 1)]


def test_summary_follows_the_shapes(deploy_net):
    net = crema.Net(deploy_net)
    net.blobs["data"].reshape(7, 1, 9, 9)
    assert net.summary().rows[1]["tops"] == [(7, 16, 7, 7)]
    fused = crema.Net(deploy_net, optimize=True).summary().rows
    assert {row["fused_into"] for row in fused} <= {"", "conv"}


def test_picture_of_a_net():
    net = crema.Net(LENET)
    page = net._repr_html_()
    root = svg_of(page)
    assert root.tag.endswith("svg")
    said = "".join(root.itertext())
    assert "conv1" in said and "Convolution 5x5, 20" in said and "64x20x24x24" in said
    assert "TEST" not in said
    assert "<table>" in page and "431080 parameters" in page
    assert net.to_svg() in page
    assert net.to_dot().startswith("digraph") and '"conv1' in net.to_dot()


def test_names_do_not_become_html(small_net):
    net = crema.Net(small_net.replace("'ip'", "'<b>ip&'"))
    assert "<b>" not in net._repr_html_() and "&lt;b&gt;ip&amp;" in net._repr_html_()


def test_blobs_and_params_in_a_terminal(small_net):
    net = crema.Net(small_net)
    assert repr(net.blobs).splitlines() == [
        "data     5x2x6x6", "label    5x1x1x1", "conv     5x4x4x4", "ip_blob  5x3",
        "loss     scalar"]
    assert repr(net.params).splitlines() == [
        "conv  4x2x3x3  4", "ip    3x64  3", f"{4 * 18 + 4 + 3 * 64 + 3} values"]
    assert repr(net.params["conv"]) == "[<crema.Blob of 4x2x3x3>, <crema.Blob of 4>]"
    assert dict(net.blobs) == net.blobs and list(net.params) == ["conv", "ip"]


def test_solver_in_jupyter(solver_file):
    solver = crema.Solver(solver_file)
    page = solver._repr_html_()
    assert "iteration 0 of 20" in page and "no iterations yet" in "".join(svg_of(page).itertext())
    solver.solve()
    page = solver._repr_html_()
    root = svg_of(page)
    assert "iteration 20 of 20" in page
    assert "test_loss" in "".join(root.itertext())
    lines = [part for part in root.iter() if part.tag.endswith("polyline")]
    assert len(lines) == 2  # the loss of training, and that of tests
    points = [tuple(map(float, point.split(","))) for point in lines[0].get("points").split()]
    assert len(points) == 20 and points == sorted(points)
    losses, heights = solver.history.loss, np.array([down for _, down in points])
    assert losses.argmax() == heights.argmin() and losses.argmin() == heights.argmax()


def test_long_curves_are_thinned_and_keep_their_peaks():
    points = [(float(step), float(step % 7)) for step in range(100000)]
    points[54321] = (54321.0, 99.0)
    kept = thinned(points)
    assert len(kept) <= 400 and (54321.0, 99.0) in kept and kept == sorted(kept)
    assert thinned(points[:5]) == points[:5]


def test_ticks_are_round():
    assert ticks(0, 1) == [0, 0.2, 0.4, 0.6, 0.8, 1]
    assert ticks(0, 20000) == [0, 5000, 10000, 15000, 20000]
    assert ticks(3, 3) == [3]


def test_what_is_a_loss():
    assert is_loss("test_loss") and is_loss("top1_err") and is_loss("errors")
    assert not is_loss("terrain") and not is_loss("accuracy")


def test_reports_say_what_they_are(solver_file):
    solver, shown = crema.Solver(solver_file), []
    solver.on_iteration = lambda report: shown.append(repr(report))
    solver.step(1)
    assert re.fullmatch(r"<crema.IterationReport of iteration 0: loss [\d.]+, rate 0.01>", shown[0])
    assert re.fullmatch(r"<crema.TestReport at iteration 1: loss [\d.]+>", repr(solver.test()[0]))
