"""Messages of Caffe: caffe.proto.caffe_pb2."""
