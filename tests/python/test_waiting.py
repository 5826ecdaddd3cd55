"""Ctrl-C while a pass waits for data that another thread makes, and nets that wait for each other."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import crema

HERE = os.path.dirname(os.path.abspath(__file__))

FED = """
layer { name: 'data' type: 'MemoryData' top: 'data' top: 'label'
  memory_data_param { batch_size: 2 channels: 1 height: 2 width: 2 } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' inner_product_param { num_output: 2 } }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }
"""

AHEAD = """
layer { name: 'data' type: 'Python' top: 'data' python_param { module: '__main__' layer: 'Never' } }
"""

SCRIPT = """
import threading
import numpy as np, crema

def never():
    threading.Event().wait()
    yield

class Never(crema.Layer):
    prefetch = 1
    def reshape(self, bottom, top): top[0].reshape(2)
    def forward(self, bottom, top): threading.Event().wait()

def fed_net():
    net = crema.Net({fed!r}, phase=crema.TRAIN)
    crema.feed(net, never)
    return net.forward

def fed_solver():
    solver = crema.Solver("base_lr: 1 lr_policy: 'fixed' max_iter: 9 snapshot_prefix: 's' "
                          "snapshot_after_train: false net_param {{" + {fed!r} + "}}")
    crema.feed(solver, never)
    return solver.solve

def layer_ahead():
    return crema.Net({ahead!r}).forward

run = {kind}()
print('waits', flush=True)
try:
    run()
except KeyboardInterrupt:
    print('interrupted', flush=True)
import os
os._exit(0)  # the thread of the layer never ends
"""


@pytest.mark.parametrize("kind", ["fed_net", "fed_solver", "layer_ahead"])
def test_one_ctrl_c_ends_a_wait_for_data(kind, tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(fed=FED, ahead=AHEAD, kind=kind)], cwd=tmp_path,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert process.stdout.readline() == "waits\n"
        time.sleep(0.5)
        os.kill(process.pid, signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert out == "interrupted\n"


def test_parameters_are_shared_behind_the_pass_that_runs():
    net, other = crema.Net(FED, phase=crema.TRAIN), crema.Net(FED, phase=crema.TRAIN)
    other.params["ip"][0].data[...] = 7
    release = threading.Event()

    def one_batch():
        release.wait(60)
        yield np.zeros((2, 1, 2, 2)), [0, 1]

    with crema.feed(net, one_batch):
        runs = threading.Thread(target=net.forward)
        runs.start()
        time.sleep(0.1)  # it waits for data
        shares = threading.Thread(target=net.share_with, args=(other,))
        shares.start()
        shares.join(0.2)
        assert shares.is_alive()
        release.set()
        runs.join(60)
        shares.join(60)
    assert not shares.is_alive()
    assert (net.params["ip"][0].data == 7).all()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_leaves_the_feeds_alone():
    from crema import _data

    net = crema.Net(FED, phase=crema.TRAIN)
    with crema.feed(net, [(np.zeros((1, 2, 2)), 0)]) as feed:
        assert feed._thread in _data._threads
        child = os.fork()
        if child == 0:
            os._exit(len(_data._threads))
        assert os.waitpid(child, 0)[1] == 0
        assert feed._thread in _data._threads
