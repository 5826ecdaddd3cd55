#include "features/extract_features.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "core/data_source.hpp"
#include "core/dispatch.hpp"
#include "crema/error.hpp"
#include "data/batches/in_step.hpp"
#include "data/databases/class_file.hpp"

namespace crema {
namespace {

/// The data layers of a net, which read in step.
class Sources {
 public:
  explicit Sources(Net& net) : net_(net) {
    for (size_t i = 0; i < net.layers().size(); ++i) {
      DataSource* const source = net.layers()[i]->data_source();
      if (source == nullptr) continue;
      // From the first record on, whatever rand_skip says.
      source->set_cursor({});
      if (all_.empty()) first_layer_ = static_cast<int>(i);
      all_.push_back({source, net.layers()[i]->name()});
    }
    for (const Source& source : all_) {
      if (source.data->records_per_batch() != all_[0].data->records_per_batch())
        throw Error("data layers '", all_[0].name, "' and '", source.name, "' have batches of ",
                    all_[0].data->records_per_batch(), " and ", source.data->records_per_batch(),
                    " records; give both one batch_size");
    }
  }

  bool any() const { return !all_.empty(); }
  /// By label, of the data layer that labels() are of.
  std::vector<std::string> class_names() const {
    return any() ? all_[0].data->class_names() : std::vector<std::string>();
  }
  int64_t batch() const { return all_[0].data->records_per_batch(); }
  std::string raw_key(int64_t index) const { return any() ? all_[0].data->raw_key(index) : ""; }

  /// After a pass from `before` on: how many records of it belong to the first epoch, and whether
  /// that is over.
  std::pair<int64_t, bool> rows_of_epoch(const std::vector<RecordCursor>& before) const {
    std::pair<int64_t, bool> first;
    for (size_t i = 0; i < all_.size(); ++i) {
      const auto rows = rows_of_epoch(before[i], all_[i].data->cursor());
      if (i == 0) first = rows;
      if (rows != first)
        throw Error("data layers '", all_[0].name, "' and '", all_[i].name,
                    "' have different numbers of records; give them records that belong together");
    }
    return first;
  }
  std::vector<RecordCursor> cursors() const {
    std::vector<RecordCursor> cursors;
    for (const Source& source : all_) cursors.push_back(source.data->cursor());
    return cursors;
  }

  /// Of the first `count` samples of the last batch, those whose records are their own. Others
  /// stand for records that could not be used, and have rows of their own elsewhere.
  std::vector<int64_t> own_records(int64_t count) const {
    std::vector<int64_t> own;
    for (int64_t i = 0; i < count; ++i) {
      const bool replaced =
          std::ranges::any_of(all_, [i](const Source& s) { return s.data->is_replaced(i); });
      if (!replaced) own.push_back(i);
    }
    return own;
  }

  /// The labels of these samples of the last batch, (N) or (N, L), row after row; none where the
  /// first data layer has no top for them.
  std::vector<double> labels(const std::vector<int64_t>& samples) const {
    if (!any()) return {};
    for (const NetStep& step : net_.steps()) {
      if (step.layer != first_layer_ || step.tops.size() < 2) continue;
      const Tensor values = net_.output(net_.values()[static_cast<size_t>(step.tops[1])].name);
      const Shape& shape = values.shape();
      if (shape.rank() < 1 || shape.rank() > 2 || shape[0] != batch()) return {};
      const int64_t each = shape.count(1);
      std::vector<double> labels;
      for (const int64_t i : samples) {
        for (int64_t k = 0; k < each; ++k) labels.push_back(values.at(i * each + k));
      }
      return labels;
    }
    return {};
  }

 private:
  struct Source {
    DataSource* data;
    std::string name;
  };

  std::pair<int64_t, bool> rows_of_epoch(const RecordCursor& before,
                                         const RecordCursor& after) const {
    if (after.epoch == before.epoch) return {batch(), false};
    const auto epochs = static_cast<int64_t>(after.epoch - before.epoch);
    const auto begin = static_cast<int64_t>(before.position);
    const int64_t count = (batch() + begin - static_cast<int64_t>(after.position)) / epochs;
    return {count - begin, true};
  }

  Net& net_;
  std::vector<Source> all_;
  int first_layer_ = -1;
};

/// The rows of a tensor at ascending indices: a view of the first ones, a copy of others.
Tensor rows_at(const Tensor& tensor, const std::vector<int64_t>& rows) {
  Shape shape = tensor.shape();
  const auto count = static_cast<int64_t>(rows.size());
  shape.set(0, count);
  Tensor part(shape, tensor.dtype());
  if (rows.empty() || rows.back() == count - 1) {
    part.bind(tensor.memory(), tensor.offset());
    return part;
  }
  const int64_t size = shape.count(1);
  dispatch_float(tensor.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* const from = tensor.read<T>();
    T* to = part.overwrite<T>();
    for (const int64_t row : rows) to = std::copy_n(from + row * size, size, to);
  });
  return part;
}

std::vector<std::unique_ptr<FeatureWriter>> make_writers(
    const ExtractOptions& options, const std::vector<std::string>& class_names) {
  std::vector<std::unique_ptr<FeatureWriter>> writers;
  const bool in_one = options.format == FeatureFormat::hdf5 && options.outputs.size() == 1;
  if (!in_one && options.outputs.size() != options.blobs.size())
    throw Error("there are ", options.blobs.size(), " blobs and ", options.outputs.size(),
                " outputs; name an output for each blob, or one HDF5 file for all");
  for (size_t i = 0; i < options.outputs.size(); ++i) {
    for (size_t k = 0; k < i; ++k) {
      if (options.outputs[i] == options.outputs[k])
        throw Error("output '", options.outputs[i], "' is named twice; name one for each blob");
    }
    writers.push_back(make_feature_writer(
        {.format = options.format,
         .path = options.outputs[i],
         .names = in_one ? options.blobs : std::vector<std::string>{options.blobs[i]},
         .class_names = class_names,
         .overwrite = options.overwrite}));
  }
  return writers;
}

/// The names as the outputs can keep them. Of a database none, with a warning, where one is no line
/// of the file of names, as folders and label maps may have them.
std::vector<std::string> kept_names(std::vector<std::string> names, FeatureFormat format,
                                    const Context& context) {
  if (format != FeatureFormat::lmdb && format != FeatureFormat::leveldb) return names;
  std::string why_not;
  names = names_for_class_file(std::move(names), why_not);
  if (!why_not.empty()) context.log(Severity::warning, why_not);
  return names;
}

void check_blobs(Net& net, const std::vector<std::string>& blobs) {
  if (blobs.empty()) throw Error("there is no blob to extract; name one or several");
  for (const auto& name : blobs) {
    if (!net.has_blob(name))
      throw Error("the net has no blob '", name, "'",
                  did_you_mean(name, net.blob_names(), "blobs are"));
    if (std::count(blobs.begin(), blobs.end(), name) > 1)
      throw Error("blob '", name, "' is named twice; name it once");
  }
}

/// The values of a blob for these of the `batch` records.
Tensor rows_of(Net& net, const std::string& blob, const std::vector<int64_t>& rows, int64_t batch) {
  const Tensor values = net.output(blob);
  if (values.shape().rank() == 0 || values.shape()[0] != batch)
    throw Error("blob '", blob, "' of ", values.shape().str(),
                " does not have a row for each of the ", batch,
                " records of a batch; name a blob whose first axis is the batch");
  return rows_at(values, rows);
}

std::string number_key(int64_t row) {
  std::array<char, 24> text;
  std::snprintf(text.data(), text.size(), "%010lld", static_cast<long long>(row));
  return text.data();
}

}  // namespace

ExtractReport extract_features(Net& net, const ExtractOptions& options) {
  check_blobs(net, options.blobs);
  if (options.batches < 0)
    throw Error("cannot run ", options.batches, " batches; give 0 for all records, or a number");
  const Sources sources(net);
  if (!sources.any() && options.batches == 0)
    throw Error(
        "the net has no data layer whose records could be counted; say how many batches to "
        "run");
  const auto writers =
      make_writers(options, kept_names(sources.class_names(), options.format, net.context()));
  InStep in_step(net.layers(), "", [&net](Severity severity, const std::string& text) {
    net.context().log(severity, text);
  });
  ExtractReport report;
  FeatureRows rows;
  while (!report.whole_epoch && (options.batches == 0 || report.batches < options.batches)) {
    const auto before = sources.cursors();
    net.forward();
    in_step.look();
    ++report.batches;
    int64_t batch = 0, count = 0;
    if (sources.any()) {
      batch = sources.batch();
      std::tie(count, report.whole_epoch) = sources.rows_of_epoch(before);
    } else {
      const Shape shape = net.output(options.blobs[0]).shape();
      batch = count = shape.rank() == 0 ? 1 : shape[0];
    }
    const std::vector<int64_t> own = sources.own_records(count);
    rows.keys.clear();
    for (const int64_t i : own) {
      std::string key = options.number_keys ? "" : sources.raw_key(i);
      rows.keys.push_back(key.empty() ? number_key(report.rows + report.left_out + i)
                                      : std::move(key));
    }
    rows.labels = sources.labels(own);
    report.shapes.clear();
    std::vector<Tensor> blobs;
    for (const auto& name : options.blobs) {
      blobs.push_back(rows_of(net, name, own, batch));
      const auto& dims = blobs.back().shape().dims();
      report.shapes.emplace_back(std::vector<int64_t>(dims.begin() + 1, dims.end()));
    }
    for (size_t w = 0; w < writers.size() && !own.empty(); ++w) {
      rows.blobs = writers.size() == blobs.size() ? std::vector<Tensor>{blobs[w]} : blobs;
      writers[w]->append(rows);
    }
    report.rows += static_cast<int64_t>(own.size());
    report.left_out += count - static_cast<int64_t>(own.size());
    if (options.progress) options.progress(report.rows);
  }
  // A full disk is met before the first output appears.
  for (const auto& writer : writers) writer->sync();
  for (const auto& writer : writers) writer->finish();
  return report;
}

}  // namespace crema
