"""caffe.draw: labels, graphs, pictures."""

import shutil

import pytest

pytest.importorskip("google.protobuf")

from google.protobuf import text_format  # noqa: E402

import caffe  # noqa: E402
from caffe.proto import caffe_pb2  # noqa: E402

NET = """
name: 'a "net"'
layer { name: 'data' type: 'Data' top: 'data' top: 'label' include { phase: TRAIN }
  data_param { batch_size: 64 } }
layer { name: 'test' type: 'Data' top: 'data' top: 'label' include { phase: TEST }
  data_param { batch_size: 10 } }
layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv:1' param { lr_mult: 1 }
  param { lr_mult: 2 } convolution_param { num_output: 20 kernel_size: 5 kernel_size: 3 pad: 2 } }
layer { name: 'relu' type: 'ReLU' bottom: 'conv:1' top: 'conv:1' exclude { phase: TEST } }
layer { name: 'pool' type: 'Pooling' bottom: 'conv:1' top: 'pool'
  pooling_param { pool: AVE kernel_h: 2 kernel_w: 3 stride: 2 } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'pool' top: 'ip'
  inner_product_param { num_output: 7 } }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }
"""


@pytest.fixture
def net():
    return text_format.Parse(NET, caffe_pb2.NetParameter())


def test_labels(net):
    data, _, conv, _, pool, ip, loss = net.layer
    label = caffe.draw.get_layer_label
    assert label(conv, "TB") == "conv (Convolution) kernel size: 5x3 stride: 1 pad: 2"
    assert label(conv, "LR").split("\n")[0] == "conv"
    assert label(conv, "TB", display_lrm=True).endswith("lr mult: 1.0, 2.0")
    assert label(ip, "TB", display_lrm=True) == "ip (InnerProduct) lr mult: 1.0"
    assert label(pool, "BT") == "pool (AVE Pooling) kernel size: 2x3 stride: 2 pad: 0"
    assert label(loss, "TB", display_lrm=True) == "loss (SoftmaxWithLoss)"
    assert caffe.draw.get_edge_label(data) == "Batch 64"
    assert caffe.draw.get_edge_label(conv) == "20" and caffe.draw.get_edge_label(ip) == "7"
    assert caffe.draw.get_edge_label(loss) == ""
    colors = [caffe.draw.choose_color_by_layertype(kind)
              for kind in ("Convolution", "Pooling", "InnerProduct", "ReLU", "SoftmaxWithLoss")]
    assert len(set(colors)) == 5 and all(color.startswith("#") for color in colors)


def test_graph(net):
    pytest.importorskip("pydot")
    graph = caffe.draw.get_pydot_graph(net, "LR")
    assert len(graph.get_nodes()) == 7 + 6 and graph.get_rankdir() == "LR"
    # Two tops of each data layer, a bottom and a top of each other one, the ReLU's bottom alone.
    assert len(graph.get_edges()) == 4 + 2 + 1 + 2 + 2 + 3
    text = graph.to_string()
    assert '"Batch 64"' in text and '"conv:1"' in text and r'"a \"net\""' in text
    assert "Batch" not in caffe.draw.get_pydot_graph(net, "LR", label_edges=False).to_string()


def test_graph_of_a_phase(net):
    pytest.importorskip("pydot")
    train = caffe.draw.get_pydot_graph(net, "TB", phase=caffe.TRAIN).to_string()
    test = caffe.draw.get_pydot_graph(net, "TB", phase=caffe.TEST).to_string()
    assert "Batch 64" in train and "Batch 10" not in train and "ReLU" in train
    assert "Batch 10" in test and "Batch 64" not in test and "ReLU" not in test


def test_a_net_of_the_old_format_is_refused():
    pytest.importorskip("pydot")
    with pytest.raises(ValueError, match="upgrade"):
        caffe.draw.get_pydot_graph(caffe_pb2.NetParameter(layers=[{}]), "LR")


def test_pictures(net, tmp_path):
    pytest.importorskip("pydot")
    if shutil.which("dot") is None:
        pytest.skip("there is no program dot")
    assert caffe.draw.draw_net(net, "LR").startswith(b"\x89PNG")
    caffe.draw.draw_net_to_file(net, str(tmp_path / "net.svg"), rankdir="TB", phase=caffe.TEST)
    assert b"<svg" in (tmp_path / "net.svg").read_bytes()
