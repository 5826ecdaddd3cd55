"""caffe.proto.caffe_pb2: one module, of whichever protobuf is installed."""

import copy
import pickle

import pytest

pytest.importorskip("google.protobuf")

from google.protobuf import text_format  # noqa: E402

import caffe  # noqa: E402
from caffe.proto import caffe_pb2  # noqa: E402


def test_one_module_however_it_is_reached():
    assert caffe.proto.caffe_pb2 is caffe_pb2
    assert caffe.io.caffe_pb2 is caffe_pb2


@pytest.mark.parametrize("name", [
    "NetParameter", "LayerParameter", "V1LayerParameter", "V0LayerParameter", "SolverParameter",
    "SolverState", "BlobProto", "BlobProtoVector", "BlobShape", "Datum", "LabelMap",
    "AnnotatedDatum", "NetState", "NetStateRule", "ParamSpec", "FillerParameter",
    "TransformationParameter", "LossParameter", "ConvolutionParameter", "PoolingParameter",
    "PythonParameter", "NormalizedBBox"])
def test_messages_have_their_names(name):
    message = getattr(caffe_pb2, name)()
    assert type(message).__name__ == name and message.DESCRIPTOR.name == name
    assert getattr(caffe_pb2, "_" + name.upper()) is message.DESCRIPTOR
    assert name in caffe_pb2.__all__ and name in caffe_pb2.DESCRIPTOR.message_types_by_name


def test_phases_and_enums():
    assert (caffe_pb2.TRAIN, caffe_pb2.TEST) == (caffe.TRAIN, caffe.TEST) == (0, 1)
    assert caffe_pb2.Phase.Value("TEST") == caffe.TEST and caffe_pb2.Phase.Name(0) == "TRAIN"
    assert caffe_pb2.SolverParameter.GPU == 1
    assert caffe_pb2.SolverParameter.SolverMode.Name(0) == "CPU"
    assert caffe_pb2.PoolingParameter.PoolMethod.items()[:2] == [("MAX", 0), ("AVE", 1)]
    types = caffe_pb2._V1LAYERPARAMETER_LAYERTYPE
    assert types.values_by_number[4].name == "CONVOLUTION"


def test_fields_of_a_layer():
    names = [field.name for field in caffe_pb2.LayerParameter.DESCRIPTOR.fields]
    layer = caffe_pb2.LayerParameter()
    params = [name for name in names if name.endswith("_param")]
    assert {"convolution_param", "python_param", "recurrent_param"} <= set(params)
    for name in params:
        assert type(getattr(layer, name)).__name__.endswith("Parameter")
    assert type(layer.convolution_param) is caffe_pb2.ConvolutionParameter


def test_text_and_bytes_and_back():
    net = text_format.Parse("""
name: 'net' layer { name: 'conv' type: 'Convolution' include { phase: TEST }
  convolution_param { num_output: 3 kernel_size: 5 weight_filler { type: 'xavier' } }
  blobs { shape { dim: 2 } data: 1 data: -2.5 } }""", caffe_pb2.NetParameter())
    assert net.layer[0].include[0].phase == caffe.TEST
    again = caffe_pb2.NetParameter()
    again.ParseFromString(net.SerializeToString())
    assert again == net and list(again.layer[0].blobs[0].data) == [1, -2.5]
    assert text_format.Parse(text_format.MessageToString(net), caffe_pb2.NetParameter()) == net
    with pytest.raises(text_format.ParseError, match="num_outptu"):
        text_format.Merge("layer { convolution_param { num_outptu: 1 } }", net)


def test_solver_with_a_net_inside():
    solver = caffe_pb2.SolverParameter(base_lr=0.5, solver_mode=caffe_pb2.SolverParameter.CPU)
    solver.net_param.layer.add(name="x", type="ReLU")
    solver.test_iter.append(10)
    assert solver.HasField("net_param") and solver.net_param.layer[0].type == "ReLU"


def test_messages_are_copied_and_pickled():
    net = caffe_pb2.NetParameter(name="n")
    net.layer.add().type = "ReLU"
    origin = caffe_pb2.Origin.Tested(output="accuracy")
    for message in (net, origin):
        assert copy.deepcopy(message) == message
        assert pickle.loads(pickle.dumps(message)) == message


def test_an_unknown_name_is_answered_by_the_nearest():
    with pytest.raises(AttributeError, match="did you mean NetParameter"):
        caffe_pb2.NetParamter  # noqa: B018
    with pytest.raises(AttributeError):
        caffe.proto.nothing  # noqa: B018
