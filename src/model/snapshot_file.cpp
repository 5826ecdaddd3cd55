#include "model/snapshot_file.hpp"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <climits>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <vector>

#include "core/memory_error.hpp"
#include "core/parse_number.hpp"
#include "crema/error.hpp"
#include "model/binary_format.hpp"
#include "model/blob_message.hpp"
#include "model/checksum.hpp"
#include "model/file_kind.hpp"
#include "model/hdf5_checksum.hpp"
#include "model/hdf5_file.hpp"
#include "model/partial_copy.hpp"
#include "model/text_diagnosis.hpp"
#include "model/whole_file.hpp"
#include "proto/net.pb.h"
#include "proto/solver.pb.h"

namespace crema {
namespace {

/// The name of an array with a parameter or a history: its index. None for other names.
std::optional<int> index_of(const std::string& name) {
  const std::optional<int> index = parse_number<int>(name);
  // A layer has a few parameters, a net some thousands: more is damage. "00" is no name of 0.
  if (!index || *index < 0 || *index > 1000000 || std::to_string(*index) != name) return {};
  return index;
}

void read_blob(const Hdf5Reader& file, const std::string& name, BlobProto& out) {
  constexpr int64_t kMostValues = INT32_MAX;  // a message has no more
  const Tensor values = file.read(name, file.dtype(name));
  if (values.count() > kMostValues)
    throw Error("array '", name, "' has ", values.count(), " values, and can have ", kMostValues);
  save_values(values, out);
}

/// Of a layer, and groups and parameters of a file. Nets have a few, and some thousands.
constexpr int kMostParameters = 10000, kMostEntries = 100000;

/// Calls read(). What the memory cannot hold is an Error that names the file: a damaged one in HDF5
/// without a checksum may say any size, another one holds what it says, and gives a MemoryError.
template <class Read>
void read_within_memory(const std::string& path, const Read& read) {
  const auto fail = [&] {
    throw Error("cannot read '", path,
                "': the memory does not suffice for what it says to hold; if it is damaged, copy "
                "or download it again, or take an earlier one");
  };
  const auto check_whole = [&] {
    if (!is_hdf5_file(path) || hdf5_contents(path) == Contents::intact)
      throw MemoryError("cannot read '", path,
                        "': the memory does not suffice for it; the file is whole, so end other "
                        "programs, raise the limit (ulimit -v), or take a larger machine");
  };
  try {
    read();
  } catch (const std::bad_alloc&) {
    check_whole();
    fail();
  } catch (const MemoryError&) {
    check_whole();
    fail();
  } catch (const std::length_error&) {
    fail();
  }
}

// --- Where they come from ------------------------------------------------

/// The attributes with the fields of Origin, but for the names of classes and those in
/// kOriginFields.
constexpr std::pair<const char*, int> kOriginTexts[] = {
    {"origin_program", Origin::kProgramFieldNumber},
    {"origin_solver", Origin::kSolverFieldNumber},
    {"origin_net", Origin::kNetFieldNumber}};
constexpr const char* kOriginClasses = "origin_class_name";
/// What these do not have, as the text of an Origin.
constexpr const char* kOriginFields = "origin_fields";

Origin without_texts(Origin origin) {
  for (const auto& [name, field] : kOriginTexts)
    origin.GetReflection()->ClearField(&origin, Origin::descriptor()->FindFieldByNumber(field));
  origin.clear_class_name();
  return origin;
}

void write_origin(Hdf5Writer& file, const Origin& origin) {
  for (const auto& [name, field] : kOriginTexts) {
    const std::string text =
        origin.GetReflection()->GetString(origin, Origin::descriptor()->FindFieldByNumber(field));
    if (!text.empty()) file.put_attribute(name, text);
  }
  std::string run;
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  printer.PrintToString(without_texts(origin), &run);
  if (!run.empty()) file.put_attribute(kOriginFields, run);
  // The longest one is the last: it takes space that the others would need near the file's begin.
  if (origin.class_name_size() > 0)
    file.put_attribute(kOriginClasses, joined(origin.class_name(), "\n"));
}

Origin read_origin(const Hdf5Reader& file) {
  Origin origin;
  // A newer version may have written fields that this one does not know.
  google::protobuf::TextFormat::Parser parser;
  FirstMessage unused;
  parser.RecordErrorsTo(&unused);
  parser.AllowUnknownField(true);
  if (!parser.ParseFromString(file.attribute(kOriginFields), &origin)) origin.Clear();
  origin = without_texts(origin);
  for (const auto& [name, field] : kOriginTexts) {
    const std::string text = file.attribute(name);
    if (text.empty()) continue;
    origin.GetReflection()->SetString(&origin, Origin::descriptor()->FindFieldByNumber(field),
                                      text);
  }
  const std::string names = file.attribute(kOriginClasses);
  for (size_t begin = 0; begin < names.size();) {
    const size_t end = std::min(names.find('\n', begin), names.size());
    origin.add_class_name(names.substr(begin, end - begin));
    begin = end + 1;
  }
  return origin;
}

/// Leaves the message without an origin if the file has none.
template <class Message>
void read_origin(const Hdf5Reader& file, Message& out) {
  Origin origin = read_origin(file);
  if (origin.ByteSizeLong() > 0) *out.mutable_origin() = std::move(origin);
}

// --- Weights ------------------------------------------------------------

/// Reads the layers of a group. Names with '/' are groups in groups. `left`: how many more groups
/// and parameters there may be; links may name a group many times over.
void read_layers(const Hdf5Reader& file, const std::string& group, const std::string& layer,
                 int depth, int& left, NetParameter& out) {
  constexpr int kMostDepth = 32;
  const auto take = [&](int count) {
    left -= count;
    if (left < 0 || depth > kMostDepth)
      throw Error("cannot read '", group,
                  "': groups lie in groups without end; the file is damaged");
  };
  take(1);
  LayerParameter* saved = nullptr;
  for (const Hdf5Reader::Entry& entry : file.entries(group)) {
    const std::string path = text(group, "/", entry.name);
    if (entry.is_group) {
      read_layers(file, path, layer.empty() ? entry.name : text(layer, "/", entry.name), depth + 1,
                  left, out);
      continue;
    }
    const std::optional<int> index = layer.empty() ? std::nullopt : index_of(entry.name);
    if (!index || *index > kMostParameters)
      throw Error("array '", path, "' is no parameter; expected /data/LAYER/INDEX");
    if (saved == nullptr) {
      saved = out.add_layer();
      saved->set_name(layer);
    }
    take(1 + std::max(0, *index - saved->blobs_size()));
    while (saved->blobs_size() <= *index) saved->add_blobs();
    read_blob(file, path, *saved->mutable_blobs(*index));
  }
}

bool has_entry(const std::vector<Hdf5Reader::Entry>& entries, const std::string& name,
               bool is_group) {
  return std::ranges::any_of(entries, [&](const Hdf5Reader::Entry& entry) {
    return entry.name == name && entry.is_group == is_group;
  });
}

/// Whether it is of Keras: a whole model, weights of Keras 3, or older ones, whose arrays are named
/// as "conv/conv/kernel:0".
bool is_of_keras(const Hdf5Reader& file, const std::string& group = "/", int depth = 0) {
  constexpr int kDepth = 3;
  const auto entries = file.entries(group);
  if (depth == 0 && (has_entry(entries, "model_weights", true) ||
                     has_entry(entries, "_layer_checkpoint_dependencies", true) ||
                     (has_entry(entries, "layers", true) && has_entry(entries, "vars", true))))
    return true;
  return std::ranges::any_of(entries, [&](const Hdf5Reader::Entry& entry) {
    if (entry.name.ends_with(":0")) return true;
    if (!entry.is_group || depth == kDepth) return false;
    const std::string path = text(group == "/" ? "" : group, "/", entry.name);
    return is_of_keras(file, path, depth + 1);
  });
}

void read_weights_hdf5(const std::string& path, NetParameter& out, Verify verify) {
  const Hdf5Reader file(path, verify);
  const auto entries = file.entries("/");
  if (!has_entry(entries, "data", true)) {
    const bool state = has_entry(entries, "iter", false);
    if (!state && is_of_keras(file))
      throw Error("'", path, "' is not a weights file but one of Keras", way_to_convert());
    throw Error("'", path, "' is not a weights file but ",
                state ? "a solver's state" : "another HDF5 file: it has no group 'data'");
  }
  try {
    int left = kMostEntries;
    read_layers(file, "/data", "", 0, left, out);
    read_origin(file, out);
  } catch (Error& error) {
    error.at({path, 0, 0});
    throw;
  }
}

/// The values as a tensor, f64 if they are doubles.
Tensor values_of(const BlobProto& blob) {
  check_blob_count(blob);
  const bool doubles =
      is_raw(blob) ? blob.raw_data_type() == ValueType::DOUBLE : blob.double_data_size() > 0;
  Tensor values(blob_shape(blob), doubles ? DType::f64 : DType::f32);
  load_values(blob, values);
  return values;
}

/// The gradient as the values of another message. Without one, it has none.
BlobProto diff_of(const BlobProto& blob) {
  BlobProto diff;
  const Shape shape = blob_shape(blob);
  for (const int64_t dim : shape.dims()) diff.mutable_shape()->add_dim(dim);
  *diff.mutable_data() = blob.diff();
  *diff.mutable_double_data() = blob.double_diff();
  if (blob.has_raw_diff()) {
    diff.set_raw_data(blob.raw_diff());
    diff.set_raw_data_type(blob.raw_diff_type());
  }
  return diff;
}

/// Error for the name of a layer that is no path of groups.
void check_group_name(const std::string& layer) {
  size_t begin = 0;
  while (begin <= layer.size()) {
    const size_t end = std::min(layer.find('/', begin), layer.size());
    const std::string part = layer.substr(begin, end - begin);
    if (part.empty() || part == ".")
      throw Error("layer '", layer,
                  "' cannot be a group of an HDF5 file; give it a name without "
                  "empty parts between '/', or use snapshot_format: BINARYPROTO");
    begin = end + 1;
  }
}

void write_hdf5(Hdf5Writer& file, const NetParameter& weights) {
  std::vector<Hdf5Layer> layers;
  for (const LayerParameter& layer : weights.layer()) {
    layers.push_back({layer.name(), layer.blobs_size()});
  }
  check_hdf5_layers(layers);
  write_origin(file, weights.origin());
  file.make_group("/data");
  for (const LayerParameter& layer : weights.layer()) {
    if (layer.blobs_size() == 0 && layer.name().empty()) continue;
    file.make_group(text("/data/", layer.name()));
    for (int i = 0; i < layer.blobs_size(); ++i) {
      const BlobProto& blob = layer.blobs(i);
      // What the file that they were read from lacks.
      if (blob_count(blob) == 0 && blob_shape(blob).rank() == 0) continue;
      const std::string name = text("/", layer.name(), "/", i);
      try {
        file.put("/data" + name, values_of(blob));
        const BlobProto diff = diff_of(blob);
        if (blob_count(diff) > 0) file.put("/diff" + name, values_of(diff));
      } catch (const Error& error) {
        throw Error("parameter ", i, " of layer '", layer.name(), "': ", error.message())
            .about(error.path());
      }
    }
  }
}

// --- States ------------------------------------------------------------

int read_integer(const Hdf5Reader& file, const std::string& name) {
  const Tensor values = file.read(name, DType::f64);
  const double value = values.count() == 1 ? values.at(0) : NAN;
  if (!(value >= INT_MIN && value <= INT_MAX) || value != std::floor(value))
    throw Error("array '", name, "' is no whole number; the file is damaged");
  return static_cast<int>(value);
}

void read_state_hdf5(const std::string& path, SolverState& out, Verify verify) {
  const Hdf5Reader file(path, verify);
  const auto entries = file.entries("/");
  if (!has_entry(entries, "iter", false) || !has_entry(entries, "history", true)) {
    const bool weights = has_entry(entries, "data", true);
    throw Error("'", path, "' is not a solver's state but ",
                weights ? "a weights file" : "another HDF5 file: it has no 'iter' and 'history'");
  }
  try {
    if (has_entry(entries, "crema", false) && !out.ParsePartialFromString(file.bytes("crema")))
      throw Error(
          "array 'crema' is damaged; copy or download the file again, or take an earlier "
          "one");
    out.set_iter(read_integer(file, "iter"));
    if (has_entry(entries, "learned_net", false)) out.set_learned_net(file.text("learned_net"));
    if (has_entry(entries, "current_step", false)) {
      out.set_current_step(read_integer(file, "current_step"));
    }
    read_origin(file, out);
    const auto histories = file.entries("/history");
    out.clear_history();
    for (size_t i = 0; i < histories.size(); ++i) out.add_history();
    for (const auto& [name, is_group] : histories) {
      const std::optional<int> index = index_of(name);
      if (is_group || !index || *index >= out.history_size())
        throw Error("'/history/", name, "' is no history: they are numbered from 0, and there are ",
                    histories.size());
      read_blob(file, text("/history/", name), *out.mutable_history(*index));
    }
  } catch (Error& error) {
    error.at({path, 0, 0});
    throw;
  }
}

void write_hdf5(Hdf5Writer& file, const SolverState& state) {
  write_origin(file, state.origin());
  file.put("iter", state.iter());
  file.put_text("learned_net", state.learned_net());
  file.put("current_step", state.current_step());
  file.make_group("/history");
  for (int i = 0; i < state.history_size(); ++i) {
    file.put(text("/history/", i), values_of(state.history(i)));
  }
  SolverState rest;
  copy_without(state,
               {SolverState::kIterFieldNumber, SolverState::kLearnedNetFieldNumber,
                SolverState::kCurrentStepFieldNumber, SolverState::kHistoryFieldNumber,
                SolverState::kOriginFieldNumber},
               rest);
  file.put_bytes("crema", rest.SerializePartialAsString());
}

/// Writes a file beside its name, and syncs it: one of the two, by the name.
template <class Message>
void write_synced(const std::string& path, const Message& message,
                  std::unique_ptr<WholeFile>& binary, std::unique_ptr<Hdf5Writer>& hdf5) {
  if (is_hdf5_name(path)) {
    hdf5 = std::make_unique<Hdf5Writer>(path, true);
    write_hdf5(*hdf5, message);
    hdf5->sync();
  } else {
    binary = std::make_unique<WholeFile>(path);
    write_binary_proto(*binary, message);
    binary->sync();
  }
}

/// An empty message of the kind that a binary file holds: weights, or a state. Error for others.
std::unique_ptr<google::protobuf::Message> message_of(const std::string& path) {
  const google::protobuf::Descriptor* type = guess_message(path);
  if (type == SolverState::descriptor()) return std::make_unique<SolverState>();
  if (type == nullptr || type == NetParameter::descriptor())
    return std::make_unique<NetParameter>();
  throw Error("'", path, "' is not a weights file or a solver's state but a ", describe(*type));
}

/// Gives an HDF5 file that has the attribute for a checksum that of its present contents. False if
/// it has none.
bool renew_hdf5_checksum(const std::string& path) {
  // A file that cannot be read shall not pass for whole.
  NetParameter net;
  SolverState state;
  if (has_entry(Hdf5Reader(path, Verify::nothing).entries("/"), "iter", false)) {
    read_state_hdf5(path, state, Verify::nothing);
  } else {
    read_weights_hdf5(path, net, Verify::nothing);
  }
  // All else in the file is kept: a copy gets the attribute.
  WholeFile copy(path);
  copy.append_file(path);
  if (!restore_hdf5_mark(copy.beside())) return false;
  copy.check(seal_hdf5(copy.descriptor()));
  copy.finish();
  return true;
}

}  // namespace

std::string check_hdf5_layers(const std::vector<Hdf5Layer>& layers) {
  std::map<std::string, int> parameters;
  std::string nested;
  for (const auto& [name, count] : layers) {
    if (count == 0 && name.empty()) continue;
    check_group_name(name);
    if (count == 0) continue;
    if (!parameters.emplace(name, count).second)
      throw Error("two layers are named '", name,
                  "', which HDF5 cannot have; give them different "
                  "names, or use snapshot_format: BINARYPROTO");
    if (nested.empty() && name.find('/') != std::string::npos) nested = name;
  }
  for (const Hdf5Layer& layer : layers) {
    for (size_t at = layer.name.find('/'); at != std::string::npos;
         at = layer.name.find('/', at + 1)) {
      const auto around = parameters.find(layer.name.substr(0, at));
      const size_t end = std::min(layer.name.find('/', at + 1), layer.name.size());
      const std::optional<int> index = index_of(layer.name.substr(at + 1, end - at - 1));
      if (around != parameters.end() && index && *index < around->second)
        throw Error("layer '", layer.name,
                    "' cannot be a group of an HDF5 file: that is where "
                    "parameter ",
                    *index, " of layer '", around->first,
                    "' lies; rename one of them, or use snapshot_format: BINARYPROTO");
    }
  }
  if (nested.empty()) return "";
  return text(
      "layer '", nested,
      "' has '/' in its name: in HDF5 that is a group in a group, which "
      "Caffe 1.0 does not find; use snapshot_format: BINARYPROTO for weights that it reads");
}

bool is_hdf5_name(std::string_view path) { return path.ends_with(".h5"); }

bool is_hdf5_file(const std::string& path) {
  try {
    return kind_of_file(path) == FileKind::hdf5;
  } catch (const Error&) {
    return false;
  }
}

bool is_hdf5_state(const std::string& path) {
  return has_entry(Hdf5Reader(path).entries("/"), "iter", false);
}

Origin read_hdf5_origin(const std::string& path) { return read_origin(Hdf5Reader(path)); }

void read_weights(const std::string& path, NetParameter& out) {
  read_within_memory(path, [&] {
    if (!is_hdf5_file(path)) return read_binary_proto(path, out);
    out.Clear();
    read_weights_hdf5(path, out, Verify::checksum);
  });
}

void read_solver_state(const std::string& path, SolverState& out) {
  read_within_memory(path, [&] {
    if (!is_hdf5_file(path)) return read_binary_proto(path, out);
    out.Clear();
    read_state_hdf5(path, out, Verify::checksum);
  });
}

uint64_t values_checksum(const NetParameter& weights) {
  // The sum over the layers: HDF5 has them in another order.
  uint64_t sum = 0;
  for (const LayerParameter& layer : weights.layer()) {
    if (layer.blobs_size() == 0) continue;
    Checksum of_layer;
    of_layer.add(layer.name().data(), layer.name().size() + 1);
    for (const BlobProto& blob : layer.blobs()) {
      const std::string shape = blob_shape(blob).str();
      of_layer.add(shape.data(), shape.size() + 1);
      if (is_raw(blob)) {
        const Tensor values = values_of(blob);
        of_layer.add(values.read_bytes(), values.bytes());
      }
      of_layer.add(blob.data().data(), static_cast<size_t>(blob.data_size()) * sizeof(float));
      of_layer.add(blob.double_data().data(),
                   static_cast<size_t>(blob.double_data_size()) * sizeof(double));
    }
    sum += of_layer.value();
  }
  return sum;
}

bool check_snapshot_file(const std::string& path) {
  require_file(path, "weights file or solver's state", ".caffemodel");
  if (is_hdf5_file(path)) {
    NetParameter net;
    SolverState state;
    is_hdf5_state(path) ? read_solver_state(path, state) : read_weights(path, net);
    return hdf5_contents(path) == Contents::intact;
  }
  const auto message = message_of(path);
  read_binary_proto(path, *message);
  return has_checksum(path, *message->GetDescriptor());
}

std::string checksum_of_weights(const std::string& path) {
  const auto carried = is_hdf5_file(path) ? hdf5_carried_checksum(path)
                                          : carried_checksum(path, *NetParameter::descriptor());
  if (!carried) return "";
  std::array<char, 17> digits{};
  std::snprintf(digits.data(), digits.size(), "%016" PRIx64, *carried);
  return digits.data();
}

bool renew_checksum(const std::string& named) {
  require_file(named, "weights file or solver's state", ".caffemodel");
  // A link stays one.
  const std::string path = std::filesystem::canonical(named).string();
  bool renewed = true;
  read_within_memory(path, [&] {
    if (is_hdf5_file(path)) {
      renewed = renew_hdf5_checksum(path);
      return;
    }
    const auto message = message_of(path);
    read_binary_proto(path, *message, Verify::nothing);
    write_binary_proto_atomically(path, *message);
  });
  return renewed;
}

SyncedFile::SyncedFile(const std::string& path, const NetParameter& weights) {
  write_synced(path, weights, binary_, hdf5_);
}

SyncedFile::SyncedFile(const std::string& path, const SolverState& state) {
  write_synced(path, state, binary_, hdf5_);
}

SyncedFile::~SyncedFile() = default;
SyncedFile::SyncedFile(SyncedFile&&) noexcept = default;
SyncedFile& SyncedFile::operator=(SyncedFile&&) noexcept = default;

void SyncedFile::finish() { hdf5_ ? hdf5_->finish() : binary_->finish(); }

void write_weights(const std::string& path, const NetParameter& weights) {
  SyncedFile(path, weights).finish();
}

void write_solver_state(const std::string& path, const SolverState& state) {
  SyncedFile(path, state).finish();
}

}  // namespace crema
