// Boxes in the form of MS COCO, with JSON for Modern C++.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "crema/error.hpp"
#include "data/boxes/annotation_files.hpp"
#include "data/records/image_list.hpp"

namespace crema {
namespace {

using nlohmann::json;

/// Without the outlines of objects, most of such a file.
json parse(const std::string& text) {
  const auto wanted = [](int, json::parse_event_t event, json& value) {
    return event != json::parse_event_t::key ||
           (value != "segmentation" && value != "keypoints" && value != "rle");
  };
  try {
    return json::parse(text, wanted);
  } catch (const json::parse_error& error) {
    throw Error("line ", line_at(text, error.byte), ", byte ", error.byte,
                ": it is no JSON; give --label_type for files of another form");
  } catch (const json::exception& error) {
    throw Error("it is no JSON that can be read (", error.what(), ")");
  }
}

/// The member of an object; Error without it, or if it is of another kind.
const json& member(const json& object, const char* name, bool (json::*is_kind)() const noexcept,
                   const char* kind) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  if (!object.is_object() || found == object.end()) throw Error("it has no \"", name, "\"");
  if (!((*found).*is_kind)()) throw Error("its \"", name, "\" is no ", kind);
  return *found;
}

constexpr auto kNumber = &json::is_number;
constexpr auto kArray = &json::is_array;
constexpr auto kString = &json::is_string;

int64_t id_of(const json& object, const char* name) {
  const json& value = member(object, name, kNumber, "number");
  if (!value.is_number_integer()) throw Error("its \"", name, "\" is no whole number");
  return value.get<int64_t>();
}

ImageSize size_of(const json& image) {
  const auto side = [&](const char* name) -> int64_t {
    const auto found = image.find(name);
    if (found == image.end() || !found->is_number()) return 0;
    const double value = found->get<double>();
    return value >= 1 && value < 1e6 ? static_cast<int64_t>(value) : 0;
  };
  return {side("height"), side("width")};
}

/// [x, y, width, height] in pixels.
Box box_of(const json& object) {
  const json& values = member(object, "bbox", kArray, "array");
  const bool numbers = std::ranges::all_of(values, [](const json& v) { return v.is_number(); });
  if (values.size() != 4 || !numbers)
    throw Error("its \"bbox\" has ", values.size(),
                numbers ? " numbers" : " members, not all numbers",
                "; it is [x, y, width, height]");
  const auto x = values[0].get<double>(), y = values[1].get<double>();
  return {x, y, x + values[2].get<double>(), y + values[3].get<double>()};
}

bool is_crowd(const json& object) {
  const auto found = object.find("iscrowd");
  if (found == object.end()) return false;
  return found->is_boolean() ? found->get<bool>() : found->is_number() && found->get<double>() != 0;
}

/// A category_id as a name, which a label map has it as.
std::string name_of(const json& id) {
  if (id.is_string()) return id.get<std::string>();
  if (!id.is_number_integer()) throw Error("its \"category_id\" is no whole number and no name");
  return std::to_string(id.get<int64_t>());
}

/// Runs body, and says which object its Error is about.
template <class Body>
void in_object(const std::string& where, const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    throw Error(where, ": ", error.message());
  }
}

/// The labels of categories by their ids, for `dataset` too.
std::map<int64_t, int32_t> category_labels(const json& data, const LabelNames& names,
                                           CocoDataset& dataset) {
  std::map<int64_t, std::string> categories;
  for (const json& category : member(data, "categories", kArray, "array")) {
    in_object("categories", [&] {
      const int64_t id = id_of(category, "id");
      if (!categories.emplace(id, member(category, "name", kString, "text")).second)
        throw Error("the id ", id, " comes twice");
    });
  }
  std::map<int64_t, int32_t> labels;
  for (const auto& [id, name] : categories) {
    if (names.empty()) {
      labels.emplace(id, static_cast<int32_t>(labels.size()) + 1);
    } else if (const auto by_id = names.find(std::to_string(id))) {
      labels.emplace(id, *by_id);
    } else if (const auto by_name = names.find_displayed(name)) {
      labels.emplace(id, *by_name);
    }
    if (const auto known = labels.find(id); known != labels.end())
      dataset.labels.push_back({known->second, std::to_string(id), name});
  }
  return labels;
}

int32_t label_of(int64_t category, const std::map<int64_t, int32_t>& labels,
                 const LabelNames& names) {
  const auto found = labels.find(category);
  if (found != labels.end()) return found->second;
  if (names.empty()) throw Error("its category_id ", category, " is not among \"categories\"");
  throw Error("its category_id ", category, " is not in the label map '", names.source(),
              "', neither by its number nor by its name; give the label map of this data set");
}

}  // namespace

AnnotationFile parse_coco_image(const std::string& content, const LabelNames& names) {
  const json data = parse(content);
  AnnotationFile file;
  if (const auto image = data.find("image"); data.is_object() && image != data.end())
    file.image = size_of(*image);
  int64_t number = 0;
  for (const json& object : member(data, "annotation", kArray, "array")) {
    RawBox box{.labeled = {}, .where = text("annotation ", number++)};
    in_object(box.where, [&] {
      if (!object.is_object() || !object.contains("category_id"))
        throw Error("it has no \"category_id\"");
      const std::string name = name_of(object["category_id"]);
      box.where = text(box.where, " (category ", name, ")");
      if (names.empty()) {
        const int64_t id = id_of(object, "category_id");
        if (id < 0 || id > INT32_MAX) throw Error("its category_id ", id, " is no label");
        box.labeled.label = static_cast<int32_t>(id);
      } else {
        box.labeled.label = label_of_name(name, names);
      }
      box.labeled.difficult = is_crowd(object);
      box.labeled.box = box_of(object);
    });
    file.boxes.push_back(std::move(box));
  }
  return file;
}

CocoDataset read_coco_dataset(const std::string& path, const LabelNames& names) {
  try {
    std::string content;
    read_file_bytes(path, content);
    const json data = parse(content);
    std::string().swap(content);
    CocoDataset dataset;
    std::vector<CocoImage>& images = dataset.images;
    std::map<int64_t, size_t> places;
    for (const json& image : member(data, "images", kArray, "array")) {
      in_object(text("image ", images.size()), [&] {
        CocoImage read{.file = member(image, "file_name", kString, "text"),
                       .id = id_of(image, "id"),
                       .annotation = {.boxes = {}, .image = size_of(image)}};
        if (!places.emplace(read.id, images.size()).second)
          throw Error("the id ", read.id, " comes twice");
        images.push_back(std::move(read));
      });
    }
    if (images.empty()) throw Error("it has no images");
    const auto labels = category_labels(data, names, dataset);
    int64_t number = 0;
    for (const json& object : member(data, "annotations", kArray, "array")) {
      RawBox box{.labeled = {}, .where = text("annotation ", number++)};
      in_object(box.where, [&] {
        const int64_t id = id_of(object, "image_id");
        const auto place = places.find(id);
        if (place == places.end()) throw Error("there is no image of its image_id ", id);
        box.labeled.label = label_of(id_of(object, "category_id"), labels, names);
        box.labeled.difficult = is_crowd(object);
        box.labeled.box = box_of(object);
        box.where = text(box.where, " of image ", id);
        images[place->second].annotation.boxes.push_back(std::move(box));
      });
    }
    return dataset;
  } catch (const Error& error) {
    throw Error("cannot read the data set '", path, "': ", error.message()).about(error.path());
  }
}

}  // namespace crema
