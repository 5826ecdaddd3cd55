#include "data/records/unlabelled.hpp"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>

#include "proto/datum.pb.h"

namespace crema {
namespace {

/// Reads the tags alone, and not the pixels.
bool has_label(std::string_view record) {
  using google::protobuf::internal::WireFormatLite;
  google::protobuf::io::CodedInputStream bytes(reinterpret_cast<const uint8_t*>(record.data()),
                                               static_cast<int>(record.size()));
  while (const uint32_t tag = bytes.ReadTag()) {
    const int field = WireFormatLite::GetTagFieldNumber(tag);
    if (field == Datum::kLabelFieldNumber || field == Datum::kFloatLabelFieldNumber) return true;
    if (!WireFormatLite::SkipField(&bytes, tag)) break;
  }
  return false;
}

}  // namespace

int64_t unlabelled_records(RecordSource& source) {
  // At equal distances, since records of one class may lie together, and writers may leave out the
  // label 0.
  constexpr int64_t kMost = 10000;
  const int64_t count = source.count(), looked_at = std::min(count, kMost);
  const auto reader = source.reader(ReadOrder::forward);
  for (int64_t i = 0; i < looked_at; ++i) {
    if (has_label(reader->read(i * count / looked_at).value)) return 0;
  }
  return looked_at;
}

}  // namespace crema
