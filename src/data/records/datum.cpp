#include "data/records/datum.hpp"

#include <algorithm>
#include <cmath>
#include <new>
#include <utility>

#include "core/utf8.hpp"
#include "crema/error.hpp"
#include "proto/datum.pb.h"
#include "proto/detection.pb.h"

namespace crema {

std::string printable_key(std::string_view key) {
  // Of a path, the end says most.
  const size_t longest = key.find('/') == std::string_view::npos ? 100 : 1000;
  return escaped_key(key.substr(0, longest)) + (key.size() > longest ? "..." : "");
}

std::string escaped_key(std::string_view key) {
  std::string text;
  while (!key.empty()) {
    const size_t length = utf8_length(key);
    const char first = key[0];
    // Control characters of Latin 1 have two bytes.
    const bool is_printable = length > 1 ? printable(key.substr(0, length)) == key.substr(0, length)
                                         : first >= 0x20 && first != 0x7f && first != '\\';
    for (const char byte : key.substr(0, std::max<size_t>(1, length)))
      text += length != 0 && is_printable ? std::string{byte} : escaped_byte(byte);
    key.remove_prefix(std::max<size_t>(1, length));
  }
  return text;
}

bool is_annotated(std::string_view record) {
  // Field 1, `datum`, with a length; field 1 of a Datum is a number.
  constexpr char kTag = '\x0a';
  return !record.empty() && record.front() == kTag;
}

Error memory_error(std::string_view key) {
  return Error(
      "record '", printable_key(key),
      "': the memory does not suffice for its image; make it smaller, leave it out, or set "
      "on_bad_record: SKIP");
}

namespace {

/// body() with the key in its errors.
template <class Body>
auto with_key(std::string_view key, const Body& body) {
  try {
    return body();
  } catch (const Error& error) {
    throw Error("record '", printable_key(key), "': ", error.message()).about(error.path());
  } catch (const std::bad_alloc&) {
    throw memory_error(key);
  }
}

}  // namespace

DatumDecoder::DatumDecoder(ColorMode mode, ImageSize size, Depth depth,
                           std::unique_ptr<DeviceJpeg> jpeg)
    : mode_(mode),
      depth_(depth),
      size_(size),
      datum_(std::make_unique<Datum>()),
      annotated_(std::make_unique<AnnotatedDatum>()),
      images_(std::move(jpeg)) {}
DatumDecoder::~DatumDecoder() = default;

void DatumDecoder::parse(std::string_view record) {
  is_annotated_ = is_annotated(record);
  google::protobuf::MessageLite& message =
      is_annotated_ ? static_cast<google::protobuf::MessageLite&>(*annotated_) : *datum_;
  const int size = static_cast<int>(std::min<size_t>(record.size(), INT32_MAX));
  if (record.size() >= size_t{INT32_MAX} || !message.ParseFromArray(record.data(), size))
    throw Error("its ", record.size(), " bytes are no ", is_annotated_ ? "Annotated" : "", "Datum");
}

const Datum& DatumDecoder::datum() const { return is_annotated_ ? annotated_->datum() : *datum_; }

Image DatumDecoder::open(const Record& record) {
  key_ = record.key;
  return with_key(key_, [&] {
    parse(record.value);
    label_ = datum().label();
    was_encoded_ = datum().encoded();
    return opened_ = open_datum();
  });
}

bool DatumDecoder::has_labels() const {
  return datum().has_label() || datum().float_label_size() > 0;
}

void DatumDecoder::labels(std::vector<double>& labels) const {
  labels.assign(datum().float_label().begin(), datum().float_label().end());
  if (labels.empty()) return labels.assign(1, datum().label());
  const auto refuse = [&](const std::string& why) {
    throw Error("record '", printable_key(key_), "': ", why, "; write the database anew");
  };
  if (datum().has_label()) refuse("its Datum has label and float_label");
  for (const double label : labels) {
    if (!std::isfinite(label)) refuse(text("its label is ", label));
  }
}

Image DatumDecoder::pixels(const ImageWindow& window, int eighths) {
  if (!is_scalable()) return opened_;
  return with_key(key_, [&] { return images_.pixels(window, eighths); });
}

Image DatumDecoder::decode(const Record& record) {
  const Image image = open(record);
  return pixels({.height = image.height, .width = image.width});
}

Image DatumDecoder::open_datum() {
  if (!was_encoded_) {
    const Image image = open_raw();
    original_ = {image.height, image.width};
    return image;
  }
  const Image image = images_.open(datum().data(), mode_, depth_);
  original_ = {image.height, image.width};
  return size_.height == 0 ? image : images_.changed({Resize{.size = size_}});
}

Image DatumDecoder::open_raw() {
  Image image{.channels = datum().channels(), .height = datum().height(), .width = datum().width()};
  if (image.channels <= 0 || image.height <= 0 || image.width <= 0)
    throw Error("its Datum says ", image.channels, " channels of ", image.height, " x ",
                image.width, " pixels; all must be positive");
  const auto count = static_cast<size_t>(image.shape().count());
  if (!datum().data().empty()) {
    if (datum().data().size() != count)
      throw Error("its Datum of ", image.shape().str(), " pixels holds ", datum().data().size(),
                  " bytes instead of ", count);
    image.bytes = reinterpret_cast<const uint8_t*>(datum().data().data());
  } else {
    if (static_cast<size_t>(datum().float_data_size()) != count)
      throw Error("its Datum of ", image.shape().str(), " values holds ", datum().float_data_size(),
                  " of them");
    image.floats = datum().float_data().data();
  }
  const int64_t wanted = mode_ == ColorMode::color  ? 3
                         : mode_ == ColorMode::gray ? 1
                                                    : image.channels;
  if (image.channels != wanted)
    throw Error(mode_ == ColorMode::color ? "force_color" : "force_gray",
                " works on compressed images only, and this record holds raw pixels in ",
                image.channels,
                " channels; leave it out, or write the database with the channels wanted");
  return image;
}

}  // namespace crema
