// Parameters from and to the published NetParameter.
#include <algorithm>
#include <set>

#include "model/binary_format.hpp"
#include "net/plan.hpp"
#include "proto/net.pb.h"

namespace crema {
namespace {

Shape shape_of(const BlobProto& blob) {
  if (blob.has_num() || blob.has_channels() || blob.has_height() || blob.has_width()) {
    return Shape{blob.num(), blob.channels(), blob.height(), blob.width()};
  }
  return Shape(std::vector<int64_t>(blob.shape().dim().begin(), blob.shape().dim().end()));
}

/// Old files give every blob four dimensions, with ones in front: (1, 1, O, K) is (O, K).
bool fits(const BlobProto& blob, const Shape& shape) {
  const Shape file = shape_of(blob);
  if (file == shape) return true;
  if (blob.has_shape() || shape.rank() > 4) return false;
  std::vector<int64_t> padded(static_cast<size_t>(4 - shape.rank()), 1);
  padded.insert(padded.end(), shape.dims().begin(), shape.dims().end());
  return file.dims() == padded;
}

template <class T, class Values>
void copy_values(const Values& values, Tensor& tensor) {
  T* to = tensor.host_overwrite<T>();
  for (int64_t i = 0; i < tensor.count(); ++i)
    to[i] = static_cast<T>(values.Get(static_cast<int>(i)));
}

void load_blob(const BlobProto& blob, Parameter& parameter, int index) {
  const Shape& shape = parameter.shape();
  require(fits(blob, shape), "cannot load parameter ", index, ": the file has shape ",
          shape_of(blob).str(), ", the net ", shape.str(),
          "; rename the layer to train it anew, or give it the file's shape");
  const bool in_double = blob.double_data_size() > 0;
  const int64_t given = in_double ? blob.double_data_size() : blob.data_size();
  require(given == shape.count(), "cannot load parameter ", index, ": the file holds ", given,
          " values for shape ", shape.str(), "; the file is damaged");
  Tensor& tensor = parameter.root().data;
  if (tensor.dtype() == DType::f64) {
    if (in_double)
      copy_values<double>(blob.double_data(), tensor);
    else
      copy_values<double>(blob.data(), tensor);
  } else {
    if (in_double)
      copy_values<float>(blob.double_data(), tensor);
    else
      copy_values<float>(blob.data(), tensor);
  }
}

void save_tensor(const Tensor& tensor, google::protobuf::RepeatedField<float>* single,
                 google::protobuf::RepeatedField<double>* full) {
  if (tensor.dtype() == DType::f64) {
    const double* from = tensor.host<double>();
    full->Assign(from, from + tensor.count());
  } else {
    const float* from = tensor.host<float>();
    single->Assign(from, from + tensor.count());
  }
}

}  // namespace

std::string LoadReport::str() const {
  auto list = [](const std::vector<std::string>& names) {
    std::string text;
    for (const auto& name : names) text += (text.empty() ? " (" : ", ") + name;
    return names.empty() ? text : text + ")";
  };
  return concat("weights: ", loaded.size(), " layers loaded, ", missing.size(), " missing",
                list(missing), ", ", unused.size(), " unused", list(unused));
}

LoadReport Net::load_weights(const NetParameter& weights, bool strict) {
  LoadReport report;
  std::set<std::string> in_file;
  std::set<std::string> in_net;
  for (Layer* layer : plan_->layers) {
    if (layer->params().empty()) continue;
    require(in_net.insert(layer->name()).second,
            "two layers of the net with parameters are named '", layer->name(),
            "': which one gets the file's? Rename one");
  }
  for (const auto& source : weights.layer()) {
    if (source.blobs_size() == 0) continue;
    require(in_file.insert(source.name()).second, "the weights file has layer '", source.name(),
            "' twice; it is damaged");
    if (in_net.count(source.name()) == 0) {
      report.unused.push_back(source.name());
      continue;
    }
    Layer& target = layer(source.name());
    try {
      require(static_cast<size_t>(source.blobs_size()) == target.params().size(),
              "the weights file has ", source.blobs_size(), " parameters for it, the net ",
              target.params().size());
      for (int i = 0; i < source.blobs_size(); ++i) {
        load_blob(source.blobs(i), *target.params()[static_cast<size_t>(i)], i);
      }
    } catch (Error& error) {
      error.in_layer(target.name(), target.type());
      throw;
    }
    report.loaded.push_back(source.name());
  }
  for (Layer* layer : plan_->layers) {
    if (!layer->params().empty() && in_file.count(layer->name()) == 0) {
      report.missing.push_back(layer->name());
    }
  }
  if (strict && !(report.missing.empty() && report.unused.empty())) {
    throw Error("the weights do not fit the net exactly (strict): ", report.str());
  }
  return report;
}

LoadReport Net::load_weights(const std::string& path, bool strict) {
  NetParameter weights;
  read_binary_proto(path, weights);
  if (weights.layer_size() == 0 && weights.layers_size() != 0) {
    throw Error("the weights are in the V1 format, which is not read yet").at({path, 0, 0});
  }
  try {
    return load_weights(weights, strict);
  } catch (Error& error) {
    error.at({path, 0, 0});
    throw;
  }
}

void Net::save(NetParameter& out, bool with_diffs) const {
  out.Clear();
  out.set_name(plan_->name);
  for (const Layer* layer : plan_->layers) {
    LayerParameter* saved = out.add_layer();
    *saved = layer->param();
    for (const auto& parameter : layer->params()) {
      BlobProto* blob = saved->add_blobs();
      for (int64_t dim : parameter->shape().dims()) blob->mutable_shape()->add_dim(dim);
      save_tensor(parameter->data, blob->mutable_data(), blob->mutable_double_data());
      if (with_diffs && plan_->trains && parameter->learnable) {
        save_tensor(parameter->root().gradient(), blob->mutable_diff(),
                    blob->mutable_double_diff());
      }
    }
  }
}

void Net::save_weights(const std::string& path) const {
  NetParameter weights;
  save(weights);
  write_binary_proto_atomically(path, weights);
}

}  // namespace crema
