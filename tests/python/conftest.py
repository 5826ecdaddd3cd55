"""Nets that the tests share, as texts of prototxts."""

import os
import signal
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))  # modules of layers in Python

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# Shells start what runs in the background with Ctrl-C ignored, and tests that press it would wait
# for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def small_net():
    """A convolution, a ReLU in place, a product and a loss, on made-up data."""
    return """
name: 'small' force_backward: true
layer { name: 'data' type: 'DummyData' top: 'data' top: 'label'
  dummy_data_param { num: 5 channels: 2 height: 6 width: 6 num: 5 channels: 1 height: 1 width: 1
    data_filler { type: 'gaussian' std: 1 } data_filler { type: 'constant' } } }
layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv'
  convolution_param { num_output: 4 kernel_size: 3 weight_filler { type: 'gaussian' std: 1 }
    bias_filler { type: 'constant' value: 0.5 } } param { decay_mult: 1 } param { decay_mult: 0 } }
layer { name: 'relu' type: 'ReLU' bottom: 'conv' top: 'conv' }
layer { name: 'ip' type: 'InnerProduct' bottom: 'conv' top: 'ip_blob'
  inner_product_param { num_output: 3 weight_filler { type: 'gaussian' std: 0.1 } } }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip_blob' bottom: 'label' top: 'loss' }
"""


@pytest.fixture
def deploy_net():
    """An input, a convolution and a product."""
    return """
name: 'deploy'
layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 2 dim: 1 dim: 8 dim: 8 } } }
layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv'
  convolution_param { num_output: 16 kernel_size: 3 weight_filler { type: 'gaussian' std: 1 } } }
layer { name: 'relu' type: 'ReLU' bottom: 'conv' top: 'relu' }
layer { name: 'pool' type: 'Pooling' bottom: 'relu' top: 'pool'
  pooling_param { pool: AVE global_pooling: true } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'pool' top: 'ip'
  inner_product_param { num_output: 3 weight_filler { type: 'gaussian' std: 0.1 } } }
"""


@pytest.fixture
def solver_file(small_net, tmp_path):
    """A solver of the small net, in a folder of its own."""
    net = tmp_path / "net.prototxt"
    net.write_text(small_net)
    solver = tmp_path / "solver.prototxt"
    solver.write_text(f"""
net: '{net}' test_iter: 2 test_interval: 10 base_lr: 0.01 momentum: 0.9 weight_decay: 0.0005
lr_policy: 'inv' gamma: 0.0001 power: 0.75 display: 100 max_iter: 20
snapshot: 10 snapshot_prefix: '{tmp_path}/snap' random_seed: 3
""")
    return str(solver)
