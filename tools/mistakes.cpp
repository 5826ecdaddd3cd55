#include "tools/mistakes.hpp"

#include <utility>

#include "core/json.hpp"
#include "core/utf8.hpp"
#include "crema/error.hpp"
#include "data/batches/datum_layer.hpp"
#include "data/databases/record_image.hpp"
#include "data/databases/record_info.hpp"

namespace crema::tools {
namespace {

bool begins_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U; }

}  // namespace

Mistakes::Mistakes(const Net& net, const std::string& folder, std::vector<std::string> names,
                   bool rgb)
    : folder_(folder),
      names_(std::move(names)),
      rgb_(rgb),
      decoder_(ColorMode::as_stored, {}, Depth::own),
      list_("file\ttrue\tpredicted\tscore\trecord\tkey\n") {
  for (const Layer* layer : net.layers()) {
    data_ = dynamic_cast<const DatumLayer*>(layer);
    if (data_ == nullptr) continue;
    images_ = data_->images();
    break;
  }
  if (images_ == nullptr)
    throw Error(
        "--save_mistakes writes images, and the net has no data layer that reads some (Data, "
        "ImageData)");
  reader_ = images_->reader(ReadOrder::random);
}

void Mistakes::add(Net& net, const ScoredLabels& of, const std::vector<bool>& left_out) {
  const Tensor scores = net.output(of.scores), labels = net.output(of.labels);
  const std::vector<Prediction> all = predictions(scores, labels, of);
  const int64_t samples = data_->records_in_batch();
  if (static_cast<int64_t>(all.size()) != samples)
    throw Error("--save_mistakes is for a class for each image, and '", of.scores, "' (",
                scores.shape().str(), ") has ", all.size(), " for ", samples, " images");
  for (int64_t i = 0; i < samples; ++i) {
    const Prediction& prediction = all[static_cast<size_t>(i)];
    const double label = labels.at(i);
    const bool is_left_out = !left_out.empty() && left_out[static_cast<size_t>(i)];
    const bool is_ignored = of.ignore_label && label == *of.ignore_label;
    const bool is_right = static_cast<double>(prediction.best) == label;
    if (is_left_out || is_ignored || is_right) continue;
    const int64_t record = data_->record_number(i);
    if (record < 0) throw Error("--save_mistakes: the data do not say which record an image is");
    if (!records_.insert(record).second) continue;  // tested before
    write(record, static_cast<int64_t>(label), prediction);
  }
}

void Mistakes::write(int64_t record, int64_t label, const Prediction& prediction) {
  const auto name = [this](int64_t c) {
    if (c < 0) return std::string("none");
    return names_.empty() ? std::to_string(c) : names_[static_cast<size_t>(c)];
  };
  const Record read = reader_->read(record);
  const std::string key(read.key);
  std::string_view part = key;
  if (images_->is_files()) part.remove_prefix(std::min(part.size(), part.rfind('/') + 1));
  RecordImage image;
  try {
    RecordInfo info = inspect_record(read, decoder_);
    image = image_of(info, "", rgb_);
  } catch (const Error& error) {
    throw Error("--save_mistakes: ", error.message());
  }
  std::string begin = text("as_", file_name_of(name(prediction.best)), "_", file_name_of(part));
  // File systems have names of 255 bytes; the number of the record and the ending follow.
  constexpr size_t kLongest = 220;
  if (begin.size() > kLongest) {
    size_t end = kLongest;
    while (!begins_character(begin[end])) --end;
    begin = text(begin.substr(0, end), "_", record);
  }
  const auto path = [&] { return text(file_name_of(name(label)), "/", begin, ".", image.type); };
  while (!written_.insert(path()).second) begin += text("_", record);
  const std::string file = path();
  folder_.write(file, image.file);
  list_ +=
      text(printable(file), "\t", printable(name(label)), "\t", printable(name(prediction.best)),
           "\t", json_number(prediction.score), "\t", record, "\t", printable(key), "\n");
  ++count_;
}

void Mistakes::finish() {
  folder_.write("mistakes.tsv", list_);
  folder_.finish();
}

}  // namespace crema::tools
