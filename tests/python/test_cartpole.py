"""models/cartpole_dqn/cartpole_dqn.py: a loop that feeds blobs and steps the solver."""

import os
import re
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
FOLDER = os.path.join(ROOT, "models", "cartpole_dqn")
SCRIPT = os.path.join(FOLDER, "cartpole_dqn.py")


def run(*words):
    return subprocess.run([sys.executable, SCRIPT, *words], capture_output=True, text=True)


def test_it_has_at_most_80_lines():
    with open(SCRIPT) as file:
        assert len(file.readlines()) <= 80


def test_it_learns_to_balance(tmp_path):
    with open(os.path.join(FOLDER, "solver.prototxt")) as file:
        settings = file.read()
    settings = settings.replace("models/cartpole_dqn/train_val", f"{FOLDER}/train_val")
    settings = settings.replace("models/cartpole_dqn/cartpole_dqn", f"{tmp_path}/cartpole")
    settings = re.sub("max_iter: .*", "max_iter: 2000", settings)
    solver = tmp_path / "solver.prototxt"
    solver.write_text(settings)
    deploy = os.path.join(FOLDER, "deploy.prototxt")
    trained = run("train", str(solver), deploy, "1")
    assert trained.returncode == 0, trained.stderr
    assert trained.stdout.splitlines()[-1] == f"{tmp_path}/cartpole_iter_2000.solverstate"
    played = run("play", deploy, f"{tmp_path}/cartpole_iter_2000.caffemodel")
    assert played.returncode == 0, played.stderr
    assert float(played.stdout.split()[-1]) > 50  # random actions reach 22


def test_wrong_words_are_answered_by_the_usage():
    answer = run("learn")
    assert answer.returncode != 0 and "Usage" in answer.stderr
