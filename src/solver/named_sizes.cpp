#include "solver/named_sizes.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <optional>

#include "core/data_source.hpp"
#include "core/parse_number.hpp"
#include "data/boxes/original_boxes.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

constexpr size_t kLongestKey = 500;  // of LMDB; what is longer was cut

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

/// The name of the image in a key "00000012_folder/a.jpg", as converters write it; "" in others.
std::string name_in(const std::string& key) {
  const size_t number = static_cast<size_t>(std::ranges::find_if_not(key, is_digit) - key.begin());
  const bool numbered = number > 0 && number < key.size() && key[number] == '_';
  if (!numbered || key.size() > kLongestKey) return {};
  return std::filesystem::path(key.substr(number + 1)).stem().string();
}

/// Whether a name is an id of a COCO data set as converters write it: a plain number. "000005" is
/// the name of a file.
bool is_id(const std::string& name) {
  const auto id = parse_number<int64_t>(name);
  return id && text(*id) == name;
}

/// The id of an image in the form of MS COCO, whose file names end with 12 digits; none in other
/// names, whose numbers say nothing of ids.
std::optional<int64_t> coco_id(const std::string& image) {
  constexpr size_t kDigits = 12;
  size_t begin = image.size();
  while (begin > 0 && is_digit(image[begin - 1])) --begin;
  if (image.size() - begin != kDigits) return std::nullopt;
  return parse_number<int64_t>(image.substr(begin));
}

/// The layer that reads the images of the set; null for none or several.
const Layer* reader_of(const Net& net) {
  const Layer* found = nullptr;
  for (const Layer* layer : net.layers()) {
    if (layer->type() != "AnnotatedData" || layer->data_source() == nullptr) continue;
    if (found != nullptr) return nullptr;
    found = layer;
  }
  return found;
}

/// `images`: of the set, from the first line on; 0: all lines.
void check(const std::string& file, int64_t images, const Layer& reader) {
  std::vector<NamedSize> lines;
  try {
    lines = read_named_sizes(file);
  } catch (const Error&) {
    return;
  }
  constexpr const char* kAdvice =
      "; give the file that crema convert-annotations --name_size_file writes with the database";
  const auto& source = *reader.data_source();
  const DataParameter& data = reader.param().data_param();
  const auto listed = static_cast<int64_t>(lines.size());
  const int64_t count = images == 0 ? listed : images;
  if (count > listed) return;  // the layer says so
  if (images == 0 ? count != source.records() : count > source.records())
    throw Error(
        "name_size_file '", file, "' is of another set: ",
        images == 0 ? text("it lists ", listed) : text("the set has ", images, " (num_test_image)"),
        " images, and layer '", reader.name(), "' reads ", source.records(), " of '", data.source(),
        "'", kAdvice);
  if (data.shuffle() || data.rand_skip() > 0)
    throw Error("name_size_file '", file, "' lists images in their order, and layer '",
                reader.name(), "' reads '", data.source(), "' in another one; remove ",
                data.shuffle() ? "shuffle" : "rand_skip", " of the test set");
  const bool are_ids = std::ranges::all_of(lines.begin(), lines.begin() + count,
                                           [](const NamedSize& line) { return is_id(line.name); });
  int64_t other = -1;
  bool any = false;
  std::string key;
  for (int64_t i = 0; i < count; ++i) {
    const std::string of_record = source.key_of_record(i);
    const std::string image = name_in(of_record);
    if (image.empty()) return;  // no more is known
    const std::string& name = lines[static_cast<size_t>(i)].name;
    const std::optional<int64_t> id = coco_id(image);
    if (are_ids && !id) continue;
    if ((!are_ids && name == image) || (id && parse_number<int64_t>(name) == id)) {
      any = true;
    } else if (other < 0) {
      other = i;
      key = of_record;
    }
  }
  // A data set in COCO's format may give its images other ids than their files have.
  if (other < 0 || (are_ids && !any)) return;
  throw Error("name_size_file '", file, "' is of another set: image ", other + 1, " is '",
              lines[static_cast<size_t>(other)].name, "' there, and '", name_in(key), "' (key '",
              key, "') in '", data.source(), "' of layer '", reader.name(), "'", kAdvice);
}

}  // namespace

void check_named_sizes(const Net& net) {
  const Layer* reader = reader_of(net);
  if (reader == nullptr) return;
  for (const Layer* layer : net.layers()) {
    const SaveOutputParameter& save = layer->param().detection_output_param().save_output_param();
    const std::string& compared = layer->param().detection_evaluate_param().name_size_file();
    try {
      if (!save.output_directory().empty() && !save.name_size_file().empty())
        check(save.name_size_file(), save.num_test_image(), *reader);
      if (!compared.empty()) check(compared, 0, *reader);
    } catch (Error& error) {
      error.in_layer(layer->name(), layer->type());
      throw;
    }
  }
}

}  // namespace crema
