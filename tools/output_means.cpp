#include "tools/output_means.hpp"

#include <algorithm>

#include "core/json.hpp"
#include "core/utf8.hpp"
#include "crema/error.hpp"
#include "tools/terminal.hpp"

namespace crema::tools {
namespace {

/// Outputs with an axis for the batch and more values than that, features mostly and no scores, get
/// one line: a screen is full by then.
constexpr int64_t kMostLines = 40;

}  // namespace

void Spread::add(double value, const Share& share) {
  // 0 times a value that is not finite is none.
  if (share.factor != 0) sum += share.factor * value;
  amount += share.amount;
  least = std::min(least, value);
  greatest = std::max(greatest, value);
  ++count;
}

std::string Spread::str() const {
  return text("mean ", mean(), ", min ", least, ", max ", greatest);
}

void OutputMeans::add(int batch, const Tensor& values, const RecordPass& pass) {
  shape = values.shape();
  // Also if a later batch alone is that large. Values of one axis, as the accuracies of classes,
  // are scores each.
  in_one_line = in_one_line || (shape.rank() > 1 && shape.count() > kMostLines);
  const Shares shares = pass.shares(name, shape);
  of_records = shares.of_records();
  Spread of_batch;
  means.resize(std::max(means.size(), static_cast<size_t>(values.count())));
  for (int64_t i = 0; i < values.count(); ++i) {
    const double value = values.at(i);
    const Share share = shares(i);
    if (of_records && share.amount == 0) continue;
    of_batch.add(value);
    spread.add(value);
    means[static_cast<size_t>(i)].add(value, share);
    if (logs_batches && !in_one_line)
      say(text("Batch ", batch, ", ", printable(name), " = ", value));
  }
  if (!logs_batches) return;
  if (of_batch.count == 0) {
    say(text("Batch ", batch, ", ", printable(name), " (", shape.str(), "): no values"));
  } else if (in_one_line) {
    say(text("Batch ", batch, ", ", printable(name), " (", shape.str(), "): ", of_batch.str()));
  }
}

void OutputMeans::log(double batches, float weight) const {
  if (spread.count == 0) {
    say(text(printable(name), " (", shape.str(), "): no values in any batch"));
    return;
  }
  if (in_one_line) {
    const double sum = spread.sum / batches;  // of a batch
    say(text(printable(name), " (", shape.str(), "): ", spread.str(),
             weight != 0 ? text(" (sum ", sum, " * ", weight, " = ", weight * sum, " loss)") : ""));
    return;
  }
  for (const Spread& of_index : means) {
    const double mean = of_index.mean();
    say(text(printable(name), " = ", mean,
             weight != 0 ? text(" (* ", weight, " = ", weight * mean, " loss)") : ""));
  }
}

std::string OutputMeans::json() const {
  if (spread.count == 0) return "[]";
  if (in_one_line) {
    return text("{\"mean\": ", json_number(spread.mean()), ", \"min\": ", json_number(spread.least),
                ", \"max\": ", json_number(spread.greatest), "}");
  }
  std::vector<std::string> values;
  for (const Spread& of_index : means) values.push_back(json_number(of_index.mean()));
  return text("[", joined(values), "]");
}

double OutputMeans::loss(double batches, float weight) const {
  if (weight == 0 || spread.count == 0) return 0;
  if (in_one_line || of_records) return static_cast<double>(weight) * spread.sum / batches;
  double sum = 0;
  for (const Spread& of_index : means) sum += of_index.mean();
  return static_cast<double>(weight) * sum;
}

}  // namespace crema::tools
