#include "onnx/model_file.hpp"

#include <fcntl.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "core/path_advice.hpp"
#include "core/utf8.hpp"
#include "model/binary_format.hpp"
#include "model/file_kind.hpp"
#include "model/open_file.hpp"
#include "model/whole_file.hpp"
#include "onnx/operators/array.hpp"

namespace crema::onnx {
namespace {

namespace fs = std::filesystem;
using google::protobuf::io::ArrayInputStream;
using google::protobuf::io::CodedInputStream;
using google::protobuf::io::FileInputStream;

constexpr std::string_view kWanted = "model of ONNX";
constexpr std::string_view kExtension = ".onnx";
constexpr int kMostBytes = static_cast<int>(kMostMessageBytes);

// --- Tensors wherever they lie in a model ----------------------------------------
//
// Messages are nested at most as deep as the parser of protobuf allows (100), and so are these
// calls.

using Visit = std::function<void(TensorProto&)>;

void visit_graph(GraphProto& graph, const Visit& visit);

void visit_node(NodeProto& node, const Visit& visit) {
  for (AttributeProto& attribute : *node.mutable_attribute()) {
    if (attribute.has_t()) visit(*attribute.mutable_t());
    for (TensorProto& tensor : *attribute.mutable_tensors()) visit(tensor);
    if (attribute.has_g()) visit_graph(*attribute.mutable_g(), visit);
    for (GraphProto& graph : *attribute.mutable_graphs()) visit_graph(graph, visit);
    if (attribute.has_sparse_tensor()) {
      visit(*attribute.mutable_sparse_tensor()->mutable_values());
      visit(*attribute.mutable_sparse_tensor()->mutable_indices());
    }
  }
}

void visit_graph(GraphProto& graph, const Visit& visit) {
  for (TensorProto& tensor : *graph.mutable_initializer()) visit(tensor);
  for (SparseTensorProto& sparse : *graph.mutable_sparse_initializer()) {
    if (sparse.has_values()) visit(*sparse.mutable_values());
    if (sparse.has_indices()) visit(*sparse.mutable_indices());
  }
  for (NodeProto& node : *graph.mutable_node()) visit_node(node, visit);
}

void visit_tensors(ModelProto& model, const Visit& visit) {
  if (model.has_graph()) visit_graph(*model.mutable_graph(), visit);
  for (FunctionProto& function : *model.mutable_functions()) {
    for (NodeProto& node : *function.mutable_node()) visit_node(node, visit);
  }
}

// --- Values in other files ----------------------------------------

bool is_external(const TensorProto& tensor) {
  return tensor.data_location() == TensorProto::EXTERNAL;
}

/// Reads the values of tensors that lie in files beside the model.
class ExternalData {
 public:
  explicit ExternalData(const std::string& model) : folder_(fs::path(model).parent_path()) {
    if (folder_.empty()) folder_ = ".";
  }

  void read(TensorProto& tensor) {
    Place place = place_of(tensor);
    const std::string path = resolve(tensor, place.location);
    DataFile& file = open(tensor, path);
    const size_t bytes = bytes_of(tensor);
    if (!place.has_length) place.length = bytes;
    if (place.length != bytes) {
      fail(tensor, "it has ", bytes, " bytes by its type and dimensions, and its length in '", path,
           "' is ", place.length);
    }
    if (place.offset > file.size || bytes > file.size - place.offset) {
      fail(tensor, "its ", bytes, " bytes from byte ", place.offset, " of '", path,
           "' on are not there; the file has ", file.size, " bytes");
    }
    // Tensors may share bytes, but a small file must not fill the memory.
    constexpr uint64_t kTimes = 4;
    read_ += bytes;
    if (read_ > kTimes * known_) {
      fail(tensor, "the tensors of the model have more than ", kTimes,
           " times as many bytes as the files that they lie in");
    }
    std::string values(bytes, '\0');
    for (size_t done = 0; done < bytes;) {
      const ssize_t got = ::pread(file.file->get(), values.data() + done, bytes - done,
                                  static_cast<off_t>(place.offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) {
        fail(tensor, "'", path,
             "' cannot be read: ", got < 0 ? std::strerror(errno) : "it became shorter meanwhile");
      }
      done += static_cast<size_t>(got);
    }
    tensor.set_raw_data(std::move(values));
    tensor.clear_external_data();
    tensor.clear_data_location();
  }

 private:
  struct Place {
    std::string location;
    uint64_t offset = 0, length = 0;
    bool has_length = false;
  };
  struct DataFile {
    std::unique_ptr<OpenFile> file;
    uint64_t size = 0;
  };

  template <class... Args>
  [[noreturn]] static void fail(const TensorProto& tensor, const Args&... args) {
    throw Error("tensor '", printable(tensor.name()), "': ", args...);
  }

  static uint64_t number(const TensorProto& tensor, const std::string& key,
                         const std::string& value) {
    uint64_t result = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), result);
    if (error != std::errc{} || end != value.data() + value.size() ||
        result > static_cast<uint64_t>(INT64_MAX)) {
      fail(tensor, "its ", key, " '", printable(value), "' in another file is no number of bytes");
    }
    return result;
  }

  static Place place_of(const TensorProto& tensor) {
    Place place;
    for (const StringStringEntryProto& entry : tensor.external_data()) {
      if (entry.key() == "location") place.location = entry.value();
      if (entry.key() == "offset") place.offset = number(tensor, "offset", entry.value());
      if (entry.key() == "length") {
        place.length = number(tensor, "length", entry.value());
        place.has_length = true;
      }
    }
    if (place.location.empty()) fail(tensor, "its values lie in another file, which is not named");
    return place;
  }

  static size_t bytes_of(const TensorProto& tensor) {
    const auto type = static_cast<ElementType>(tensor.data_type());
    if (!is_supported(type))
      fail(tensor, "values of ", type_name(tensor.data_type()), " are not supported");
    try {
      const Shape shape({tensor.dims().begin(), tensor.dims().end()});
      size_t bytes = 0;
      if (__builtin_mul_overflow(static_cast<size_t>(shape.count()), element_size(type), &bytes) ||
          bytes > static_cast<size_t>(INT64_MAX))
        throw Error("shape ", shape.str(), " is too large");
      return bytes;
    } catch (const Error& error) {
      fail(tensor, "its ", error.message());
    }
  }

  /// Error unless the file lies in the model's folder, links followed.
  std::string resolve(const TensorProto& tensor, const std::string& location) const {
    const fs::path relative(location);
    const auto outside = [&] {
      fail(tensor, "its values are said to lie in '", printable(location),
           "', outside of the model's folder; such a file is not read");
    };
    if (location.find('\0') != std::string::npos || relative.is_absolute()) outside();
    if (std::ranges::find(relative, fs::path("..")) != relative.end()) outside();
    const fs::path path = folder_ / relative;
    std::error_code error;
    const fs::path real = fs::weakly_canonical(path, error);
    if (error) fail(tensor, "'", printable(path.string()), "': ", error.message());
    const fs::path home = fs::weakly_canonical(folder_, error);
    if (error) fail(tensor, "'", printable(folder_.string()), "': ", error.message());
    const auto [in_home, in_real] = std::ranges::mismatch(home, real);
    if (in_home != home.end()) outside();
    return path.string();
  }

  DataFile& open(const TensorProto& tensor, const std::string& path) {
    const auto found = files_.find(path);
    if (found != files_.end()) return found->second;
    DataFile file;
    file.file = std::make_unique<OpenFile>(path, O_RDONLY | O_NONBLOCK);
    struct stat status;
    if (!file.file->is_open() || ::fstat(file.file->get(), &status) != 0) {
      const int reason = errno;
      throw Error("tensor '", printable(tensor.name()), "': its values lie in '", printable(path),
                  "', which cannot be opened: ", std::strerror(reason),
                  "; copy that file together with the model")
          .about(path);
    }
    if (!S_ISREG(status.st_mode)) fail(tensor, "'", printable(path), "' is no file with values");
    file.size = static_cast<uint64_t>(status.st_size);
    known_ += file.size;
    return files_.emplace(path, std::move(file)).first->second;
  }

  fs::path folder_;
  std::map<std::string, DataFile> files_;
  uint64_t read_ = 0, known_ = 0;  // bytes
};

// --- Checking what was read ----------------------------------------

/// Error unless the message, which parsed, is a model.
void check_model(const ModelProto& model) {
  if (!model.has_graph() || model.opset_import_size() == 0) {
    throw Error("it is no ", kWanted, ": it has no ", model.has_graph() ? "opset_import" : "graph");
  }
  constexpr int64_t kOldest = 3;  // the first with opset_import
  if (model.ir_version() < kOldest)
    throw Error("its IR version ", model.ir_version(), " is older than ", kOldest);
}

[[noreturn]] void refuse_damaged(const std::string& path) {
  std::string what = "it is cut off or damaged, or no protocol buffer";
  const google::protobuf::Descriptor* other = guess_message(path);
  if (other != nullptr) what = text("it is a ", describe(*other));
  throw Error("'", printable(path), "' is no ", kWanted, ": ", what).about(path);
}

}  // namespace

bool is_onnx_name(std::string_view path) {
  return path.size() > kExtension.size() && path.ends_with(kExtension);
}

ModelProto parse_model(std::string_view bytes, const std::string& name) {
  try {
    if (bytes.size() > static_cast<size_t>(kMostBytes))
      throw Error("it has more than the 2 GiB of a protocol buffer");
    ModelProto model;
    ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
    CodedInputStream input(&stream);
    input.SetTotalBytesLimit(kMostBytes);
    if (!model.MergeFromCodedStream(&input) || !input.ConsumedEntireMessage())
      throw Error("it is no ", kWanted, ", or it is cut off or damaged");
    check_model(model);
    visit_tensors(model, [](TensorProto& tensor) {
      if (is_external(tensor)) {
        throw Error("tensor '", printable(tensor.name()),
                    "': its values lie in another file, and the model is none");
      }
    });
    return model;
  } catch (Error& error) {
    throw Error("'", printable(name), "': ", error.message()).about(name);
  }
}

ModelProto read_model(const std::string& path) {
  require_file(path, kWanted, kExtension);
  const FileKind kind = kind_of_file(path);
  if (kind != FileKind::binary) {
    throw Error("'", printable(path), "' is no ", kWanted, ": it is ", describe(kind),
                way_out_of(kind))
        .about(path);
  }
  const OpenFile file(path, O_RDONLY);
  if (!file.is_open()) {
    const int reason = errno;
    throw Error("cannot open ", kWanted, " '", path, "': ", std::strerror(reason)).about(path);
  }
  struct stat status;
  if (::fstat(file.get(), &status) == 0 && status.st_size > kMostBytes) {
    throw Error("'", printable(path), "' has ", status.st_size,
                " bytes, and a protocol buffer at most 2 GiB; write it with its tensors in a file "
                "beside it (external data)")
        .about(path);
  }
  ModelProto model;
  FileInputStream stream(file.get());
  CodedInputStream input(&stream);
  input.SetTotalBytesLimit(kMostBytes);
  if (!model.MergeFromCodedStream(&input) || !input.ConsumedEntireMessage()) refuse_damaged(path);
  try {
    check_model(model);
    ExternalData data(path);
    visit_tensors(model, [&](TensorProto& tensor) {
      if (is_external(tensor)) data.read(tensor);
    });
  } catch (Error& error) {
    throw Error("'", printable(path), "': ", error.message())
        .about(error.path().empty() ? path : error.path());
  }
  return model;
}

void write_model(const std::string& path, ModelProto model, int64_t limit) {
  if (model.ByteSizeLong() <= static_cast<size_t>(limit)) {
    write_binary_proto_atomically(path, model);
    return;
  }
  constexpr size_t kSmall = 1024;
  constexpr size_t kAlignment = 4096;  // so that runtimes can map the tensors into memory
  const std::string data_path = path + ".data";
  WholeFile data(data_path);
  size_t at = 0;
  visit_tensors(model, [&](TensorProto& tensor) {
    if (tensor.raw_data().size() <= kSmall) return;
    if (at % kAlignment != 0) {
      const size_t gap = kAlignment - at % kAlignment;
      data.append(std::string(gap, '\0'));
      at += gap;
    }
    const auto add = [&](const char* key, const std::string& value) {
      StringStringEntryProto& entry = *tensor.add_external_data();
      entry.set_key(key);
      entry.set_value(value);
    };
    data.append(tensor.raw_data());
    add("location", fs::path(data_path).filename().string());
    add("offset", std::to_string(at));
    add("length", std::to_string(tensor.raw_data().size()));
    at += tensor.raw_data().size();
    tensor.clear_raw_data();
    tensor.set_data_location(TensorProto::EXTERNAL);
  });
  if (model.ByteSizeLong() > static_cast<size_t>(limit)) {
    throw Error("'", printable(path), "': the model without its tensors has ", model.ByteSizeLong(),
                " bytes, more than a protocol buffer can have");
  }
  data.sync();
  WholeFile file(path);
  write_binary_proto(file, model);
  // The model never names a file that is not there.
  data.finish();
  file.finish();
}

}  // namespace crema::onnx
