// HDF5Data: rows of arrays in HDF5 files. See README.md.
#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "core/parallel.hpp"
#include "core/spans.hpp"
#include "crema/error.hpp"
#include "crema/registry.hpp"
#include "data/batches/sampled_layer.hpp"
#include "data/records/text_list.hpp"
#include "model/hdf5_file.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

struct ListedFile {
  std::string path;
  int64_t line = 0;       // in the list, from 1
  int64_t first_row = 0;  // among the rows of all files
  int64_t rows = 0;
};

/// What is the same for all rows.
struct Columns {
  std::vector<std::string> names;  // one a top, as the following
  std::vector<Shape> shapes;       // of one row
  DType dtype = DType::f32;

  size_t row_bytes(size_t top) const {
    return static_cast<size_t>(shapes[top].count()) * size_of(dtype);
  }
  size_t row_bytes() const {
    size_t bytes = 0;
    for (size_t top = 0; top < shapes.size(); ++top) bytes += row_bytes(top);
    return bytes;
  }
};

Shape row_of(const Shape& shape) {
  return Shape(std::vector<int64_t>(shape.dims().begin() + 1, shape.dims().end()));
}

/// The shapes of the arrays in a file, one a top. Error unless they have as many rows.
std::vector<Shape> shapes_in(const Hdf5Reader& reader, const std::string& path,
                             const std::vector<std::string>& names) {
  std::vector<Shape> shapes;
  for (const std::string& name : names) {
    const Shape shape = reader.shape(name);
    if (shape.rank() == 0)
      throw Error("array '", name, "' of '", path, "' is one number; write an array of rows");
    if (shape[0] == 0)
      throw Error("array '", name, "' of '", path,
                  "' has no rows; remove the file from the list, or write rows to it");
    if (!shapes.empty() && shape[0] != shapes[0][0])
      throw Error("'", path, "' has ", shapes[0][0], " rows in array '", names[0], "' ",
                  shapes[0].str(), " and ", shape[0], " in '", name, "' ", shape.str(),
                  "; write the same number of rows");
    shapes.push_back(shape);
  }
  return shapes;
}

struct RowBatch : Batch {
  std::vector<uint8_t> rows;  // those of top 0, those of top 1, and so on
};

/// Copies rows out of the file that it read last, as a whole.
class Hdf5Loader final : public BatchLoader<RowBatch> {
 public:
  Hdf5Loader(std::shared_ptr<const std::vector<ListedFile>> files, Columns columns)
      : files_(std::move(files)), columns_(std::move(columns)) {}

  void load(RowBatch& batch, const std::atomic<bool>& stop) override {
    const size_t size = batch.samples.size();
    batch.rows.resize(size * columns_.row_bytes());
    for (size_t i = 0; i < size && !stop.load(std::memory_order_relaxed); ++i) {
      const int64_t record = batch.samples[i].record;
      const auto& file =
          *std::prev(std::ranges::upper_bound(*files_, record, {}, &ListedFile::first_row));
      open(file);
      const Span span(SpanKind::read, [] { return "read"; });
      uint8_t* column = batch.rows.data();
      for (size_t top = 0; top < arrays_.size(); ++top) {
        const size_t bytes = columns_.row_bytes(top);
        const auto row = static_cast<size_t>(record - file.first_row);
        std::memcpy(column + i * bytes,
                    static_cast<const uint8_t*>(arrays_[top].read_bytes()) + row * bytes, bytes);
        column += size * bytes;
      }
    }
  }

 private:
  void open(const ListedFile& file) {
    if (open_ == &file) return;
    const Span span(SpanKind::decode, [] { return "open file"; });
    open_ = nullptr;
    arrays_.clear();
    const Hdf5Reader reader(file.path);
    const std::vector<Shape> shapes = shapes_in(reader, file.path, columns_.names);
    for (size_t top = 0; top < shapes.size(); ++top) {
      if (shapes[top][0] != file.rows || row_of(shapes[top]) != columns_.shapes[top])
        throw Error("array '", columns_.names[top], "' of '", file.path, "' is ", shapes[top].str(),
                    " now, and had ", file.rows, " rows of ", columns_.shapes[top].str(),
                    " when the net was built; do not write to files that are read");
      arrays_.push_back(reader.read(columns_.names[top], columns_.dtype));
    }
    open_ = &file;
  }

  std::shared_ptr<const std::vector<ListedFile>> files_;
  Columns columns_;
  const ListedFile* open_ = nullptr;
  std::vector<Tensor> arrays_;  // of that file, one a top
};

class Hdf5DataLayer : public BatchLayer<RowBatch> {
 public:
  explicit Hdf5DataLayer(const LayerInit& init)
      : BatchLayer(init, init.param.hdf5_data_param().batch_size(), "hdf5_data_param") {
    if (settings().source().empty())
      throw Error(
          "hdf5_data_param has no source; name a text file that names the HDF5 files, one a line");
    if (init.param.has_transform_param())
      throw Error(
          "HDF5Data does not transform; write the values as the net is to see them, and remove "
          "transform_param");
  }

  Arity arity() const override { return {0, 0, 1, -1}; }

  /// Opens all files, and looks at their shapes.
  void setup(Blobs, Blobs) override {
    columns_.names.assign(param().top().begin(), param().top().end());
    columns_.dtype = dtype();
    auto files = std::make_shared<std::vector<ListedFile>>();
    read_text_list(settings().source(), "the paths of HDF5 files, one a line",
                   [&](std::string_view text, int64_t line) {
                     files->push_back(look_at(std::string(text), line));
                   });
    files_ = std::move(files);
  }

  std::vector<std::string> input_files() const override {
    std::vector<std::string> paths;
    for (const ListedFile& file : *files_) paths.push_back(file.path);
    return paths;
  }
  void reshape(Blobs, Blobs top) override { reshape_rows(records_per_batch(), top); }

  /// Of the batches that are read ahead, and of the largest file.
  size_t kept_bytes() const override {
    int64_t rows = kDepth * records_per_batch();
    rows += std::ranges::max(*files_, {}, &ListedFile::rows).rows;
    return static_cast<size_t>(rows) * columns_.row_bytes();
  }

 private:
  static constexpr int64_t kGrain = int64_t{1} << 18;  // bytes that are worth a thread

  const HDF5DataParameter& settings() const { return param().hdf5_data_param(); }

  bool ends_early() const override { return true; }
  void take_shape(const RowBatch& batch, Blobs top) override {
    reshape_rows(static_cast<int64_t>(batch.samples.size()), top);
  }
  void reshape_rows(int64_t rows, Blobs top) const {
    for (size_t i = 0; i < top.size(); ++i) reshape_to(rows, columns_.shapes[i], *top[i]);
  }

  ListedFile look_at(const std::string& path, int64_t line) {
    const std::vector<Shape> shapes = shapes_in(Hdf5Reader(path), path, columns_.names);
    for (size_t top = 0; top < shapes.size(); ++top) {
      const Shape row = row_of(shapes[top]);
      if (columns_.shapes.size() == top) columns_.shapes.push_back(row);
      if (row != columns_.shapes[top])
        throw Error("array '", columns_.names[top], "' of '", path, "' has rows of ", row.str(),
                    ", and that of the first file rows of ", columns_.shapes[top].str(),
                    "; all files need the same");
    }
    const ListedFile file{path, line, rows_, shapes[0][0]};
    rows_ += file.rows;
    return file;
  }

  SamplerOptions sampling() const override {
    SamplerOptions options{.count = rows_, .shuffle = settings().shuffle()};
    for (const ListedFile& file : *files_) options.groups.push_back(file.rows);
    return options;
  }

  Loading loading() override {
    // One thread: each would hold a file.
    return {.threads = 1, .make_loader = [files = files_, columns = columns_] {
              return std::make_unique<Hdf5Loader>(files, columns);
            }};
  }

  void give(const RowBatch& batch, Blobs top) override {
    const uint8_t* column = batch.rows.data();
    for (size_t i = 0; i < top.size(); ++i) {
      const auto bytes = static_cast<int64_t>(top[i]->data.bytes());
      auto* const out = static_cast<uint8_t*>(top[i]->data.overwrite_bytes());
      parallel_for(bytes, kGrain, [&](int64_t begin, int64_t end) {
        std::memcpy(out + begin, column + begin, static_cast<size_t>(end - begin));
      });
      column += bytes;
    }
  }

  std::string key_of(const Sample& sample, int64_t) const override {
    const auto& file =
        *std::prev(std::ranges::upper_bound(*files_, sample.record, {}, &ListedFile::first_row));
    return text(file.path, ", row ", sample.record - file.first_row);
  }

  Columns columns_;
  int64_t rows_ = 0;  // of all files
  std::shared_ptr<const std::vector<ListedFile>> files_;
};

}  // namespace

void register_hdf5_data(Registry& registry) { registry.add<Hdf5DataLayer>("HDF5Data"); }

}  // namespace crema
