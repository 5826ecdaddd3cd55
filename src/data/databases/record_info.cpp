#include "data/databases/record_info.hpp"

#include <algorithm>
#include <cmath>

#include "crema/error.hpp"
#include "data/images/image_header.hpp"
#include "model/file_kind.hpp"
#include "proto/datum.pb.h"
#include "proto/detection.pb.h"

namespace crema {
namespace {

template <class Values>
void need_finite(const Values& values, std::string_view what, const std::string& key) {
  for (const float value : values) {
    if (!std::isfinite(value))
      throw Error("record '", key, "': its ", what, " has the value ", value,
                  "; leave the record out, or write it again");
  }
}

}  // namespace

std::string RecordInfo::kind() const {
  if (!encoded) return floats ? "floats" : "raw";
  const std::string type = file_type.empty() ? "compressed" : file_type;
  return bits > 8 ? text(type, ", ", bits, " bits") : type;
}

std::string RecordInfo::labels(std::string_view separator) const {
  if (has_boxes) return text(boxes.size(), boxes.size() == 1 ? " box" : " boxes");
  if (!float_labels.empty()) return joined(float_labels, separator);
  return has_label ? text(label) : "";
}

RecordInfo inspect_record(const Record& record, DatumDecoder& decoder) {
  RecordInfo info;
  info.image = decoder.decode(record);
  info.key = printable_key(record.key);
  info.bytes = record.value.size();
  info.shape = info.image.shape();
  const AnnotatedDatum* annotated = decoder.annotated();
  Datum datum;
  if (annotated != nullptr) {
    datum = annotated->datum();
    info.has_boxes = annotated->has_type() || annotated->annotation_group_size() > 0;
    try {
      info.boxes = boxes_of(*annotated);
    } catch (const Error& error) {
      throw Error("record '", info.key, "': ", error.message()).about(error.path());
    }
  } else {
    datum.ParseFromArray(record.value.data(), static_cast<int>(record.value.size()));
  }
  info.floats = info.image.floats != nullptr;
  info.encoded = datum.encoded();
  info.has_label = datum.has_label();
  info.label = datum.label();
  info.float_labels.assign(datum.float_label().begin(), datum.float_label().end());
  need_finite(datum.float_data(), "float_data", info.key);
  std::vector<double> labels;
  decoder.labels(labels);  // refuses what data layers refuse
  if (info.encoded) {
    info.file = std::move(*datum.mutable_data());
    info.file_type = image_type(info.file);
    info.bits = read_image_header(info.file).bits;
  }
  return info;
}

}  // namespace crema
