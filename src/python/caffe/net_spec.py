"""Nets written in Python: layers as functions of the blobs that they read.

    from caffe import layers as L, params as P

    n = caffe.NetSpec()
    n.data = L.Input(shape=dict(dim=[64, 1, 28, 28]))
    n.conv1 = L.Convolution(n.data, num_output=20, kernel_size=5, weight_filler=dict(type='xavier'))
    net = caffe.Net(n.to_proto(), caffe.TEST)     # or: print(n.to_prototxt())

The names are those of crema.net_spec, whose manual says more.
"""

from crema.net_spec import (
    Function,
    Layers,
    MissingTop,
    NetSpec,
    Parameters,
    Top,
    assign_proto,
    layers,
    param_name_dict,
    params,
    to_proto,
)

__all__ = ["Function", "Layers", "MissingTop", "NetSpec", "Parameters", "Top", "assign_proto",
           "layers", "param_name_dict", "params", "to_proto"]
