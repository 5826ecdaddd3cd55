"""Packages that bring their own protobuf, OpenMP or C++ libraries, in one process with crema.

Each runs in a process of its own, imported before crema and behind it: a clash of symbols shows
itself as a crash or as wrong values there.
"""

import importlib.util
import os
import shutil
import subprocess
import sys

import pytest

# What each package does, so that its libraries are loaded and its threads run.
USES = {
    "torch": """
images = torch.arange(2 * 3 * 64 * 64.).reshape(2, 3, 64, 64) / 1000
torch.set_num_threads(2)
def use_torch():
    made = torch.nn.functional.conv2d(images, torch.ones(4, 3, 3, 3))
    assert made.shape == (2, 4, 62, 62) and abs(made[0, 0, 0, 0].item()
                                                - images[0, :, :3, :3].sum().item()) < 0.05
    assert (torch.ones(300, 300) @ torch.ones(300, 300) == 300).all()
""",
    "onnx": """
def use_onnx():
    from onnx import TensorProto, helper
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in 'xy')
    model = helper.make_model(helper.make_graph([helper.make_node('Relu', ['x'], ['y'])], 'g',
                                                [x], [y]))
    onnx.checker.check_model(onnx.shape_inference.infer_shapes(
        onnx.load_from_string(model.SerializeToString())))
""",
    "onnxruntime": """
def use_onnxruntime():
    assert 'CPUExecutionProvider' in onnxruntime.get_available_providers()
    try:
        onnxruntime.InferenceSession(b'no model')
    except Exception as error:
        assert 'protobuf' in str(error).lower(), error
    else:
        raise AssertionError('it read no model')
""",
    "tensorflow": """
def use_tensorflow():
    made = tensorflow.nn.conv2d(tensorflow.ones((1, 8, 8, 3)), tensorflow.ones((3, 3, 3, 4)), 1,
                                'VALID')
    assert float(made[0, 0, 0, 0]) == 27
""",
}

CREMA = """
def use_crema():
    net = crema.Net('''
layer { name: "data" type: "Input" top: "data"
  input_param { shape { dim: 2 dim: 3 dim: 64 dim: 64 } } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv" convolution_param {
  num_output: 4 kernel_size: 3 weight_filler { type: "constant" value: 1 } } }
layer { name: "loss" type: "Reduction" bottom: "conv" top: "loss" loss_weight: 1 }''',
                    backward=True)
    # No part of the sums is much larger than the whole, whatever the order of a kernel's sums.
    images = np.sin(np.arange(2 * 3 * 64 * 64)).reshape(2, 3, 64, 64)
    out = net.forward(data=images)
    windows = np.lib.stride_tricks.sliding_window_view(images, (3, 3), axis=(2, 3)).sum((1, 4, 5))
    np.testing.assert_allclose(net.blobs['conv'].data, windows[:, None].repeat(4, 1), atol=1e-3)
    np.testing.assert_allclose(out['loss'], 4 * windows.sum(), atol=0.5)
    net.backward()
    np.testing.assert_allclose(net.params['conv'][0].diff[2, 1], [
        [images[:, 1, y:y + 62, x:x + 62].sum() for x in range(3)] for y in range(3)], atol=1e-2)
    try:
        crema.Net('layer { no such field }')
    except crema.Error:
        pass
    else:
        raise AssertionError('it read no net')
"""

MESSAGES = """
    if with_messages:
        param = crema.messages.NetParameter.FromString(net.to_bytes())
        assert param.layer[1].convolution_param.num_output == 4
"""


def run(modules, uses, before=""):
    """Imports the modules in their order, and lets each compute, twice, in that of `uses`."""
    text = f"import numpy as np, importlib.util\n{before}\n"
    text += "with_messages = importlib.util.find_spec('google') is not None\n"
    for module in modules:
        text += f"import {module}\n" + (CREMA + MESSAGES if module == "crema" else USES[module])
    text += "".join(f"use_{module}()\n" for module in uses * 2) + "print('done')\n"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True,
                          timeout=300, env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"})
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr[-3000:]


@pytest.mark.parametrize("package", USES)
@pytest.mark.parametrize("first", ["crema", "package"])
def test_in_either_order(package, first):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    pair = ["crema", package] if first == "crema" else [package, "crema"]
    run(pair, pair)
    run(pair, pair[::-1])


def test_all_at_once():
    there = [package for package in USES if importlib.util.find_spec(package) is not None]
    if len(there) < 2:
        pytest.skip("two of them are not installed: " + ", ".join(USES))
    for modules in (["crema", *there], [*there, "crema"], [*there[::-1], "crema"]):
        run(modules, modules)


@pytest.mark.skipif("LD_PRELOAD" in os.environ, reason="what is preloaded comes before all")
def test_functions_of_protobuf_that_another_library_offers_to_the_process(tmp_path):
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    names = ("_ZN6google8protobuf14DescriptorPool23internal_generated_poolEv",
             "_ZN6google8protobuf10TextFormat6Parser5ParseEPNS0_2io19ZeroCopyInputStreamEPNS0_7MessageE")
    (tmp_path / "other.c").write_text(
        "void abort(void);\n" + "".join(f"void {name}(void) {{ abort(); }}\n" for name in names))
    library = str(tmp_path / "libother.so")
    subprocess.run(["cc", "-shared", "-fPIC", str(tmp_path / "other.c"), "-o", library], check=True)
    offer = f"import ctypes; ctypes.CDLL({library!r}, ctypes.RTLD_GLOBAL)"
    run(["crema"], ["crema"], before=offer)
