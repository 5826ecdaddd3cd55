#include "data/converters/image_records.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <utility>

#include "core/parallel.hpp"
#include "crema/error.hpp"
#include "data/databases/database_writer.hpp"
#include "data/images/image_codec.hpp"
#include "data/images/image_name.hpp"
#include "data/images/image_planes.hpp"
#include "model/file_kind.hpp"
#include "proto/datum.pb.h"

namespace crema {
namespace {

// Images in flight a thread: enough to keep the threads busy, few enough for large photos.
constexpr int64_t kChunkPerThread = 8;
// Of a record's pixels: Protocol Buffers end at 2 GiB, with what stands beside the pixels.
constexpr int64_t kMostBytes = std::numeric_limits<int32_t>::max() - 1024;

/// Error when so many bytes do not fit into a record.
void check_bytes(int64_t channels, int64_t height, int64_t width, int64_t bytes = 1) {
  if (channels * height * width > kMostBytes / bytes)
    throw Error("an image of ", channels, " x ", height, " x ", width,
                bytes == 1 ? " bytes" : " floats",
                " is too large for a record, which holds 2 GiB; make it smaller (--resize), ",
                "or keep it compressed (--encoded)");
}

void set_size(const Image& image, Datum& datum) {
  datum.set_channels(static_cast<int>(image.channels));
  datum.set_height(static_cast<int>(image.height));
  datum.set_width(static_cast<int>(image.width));
}

/// Long names keep their end, where they differ.
std::string key_of(int64_t number, const std::string& file) {
  std::array<char, 24> digits;
  std::snprintf(digits.data(), digits.size(), "%08lld_", static_cast<long long>(number));
  const std::string prefix = digits.data();
  const size_t room = DatabaseWriter::max_key_size() - prefix.size();
  return prefix + (file.size() <= room ? file : file.substr(file.size() - room));
}

/// Counts bad images, or throws at the first, as asked; and good ones that do not fit the others.
class Collector {
 public:
  explicit Collector(const ListConversion& job) : job_(job) {}

  ConvertReport& report() { return report_; }

  bool accepts(int64_t index, ConvertedImage& converted) {
    if (converted.problem.empty()) {
      if (!first_) first_ = {index, converted.shape, converted.has_floats};
      const bool fits = converted.shape == first_->shape;
      const bool is_alike = converted.has_floats == first_->has_floats;
      if (is_alike && (fits || !job_.check_size)) {
        if (!fits && sizes_++ == 0) other_ = {index, converted.shape};
        ++accepted_;
        count(converted.loss.depth, index, deep_);
        count(converted.loss.palette, index, palettes_);
        if (job_.accepted) job_.accepted(index);
        return true;
      }
      converted.problem =
          problem(job_.listed(index),
                  is_alike ? text("it is of ", converted.shape.str(), ", the first image ",
                                  first_->shape.str(), "; resize them to one size")
                           : text("it has ", converted.has_floats ? "more than " : "", "8 bits a ",
                                  "channel, and the first image, ", place_of(first_->index), ", ",
                                  converted.has_floats ? "8" : "more",
                                  "; data layers read records of bytes or of floats: convert "
                                  "images of one depth, or leave --keep_depth out"));
    }
    if (!job_.check_only && !job_.skip_bad)
      throw Error(converted.problem, " (--skip_bad leaves bad images out, --check lists them)");
    ++report_.bad;
    if (report_.problems.size() < ConvertReport::kMostProblems) {
      report_.problems.push_back(std::move(converted.problem));
    }
    return false;
  }

  /// To be called at the end.
  void warn() {
    if (deep_.count > 0)
      report_.warnings.push_back(
          text(deep_.count, " of ", accepted_,
               " images have more than 8 bits a channel, of which the records hold the upper 8; "
               "the first is ",
               place_of(deep_.first), ". --keep_depth",
               job_.encoded ? ", without --encoded and --encode_type," : "",
               " makes records of all bits"));
    if (palettes_.count > 0)
      report_.warnings.push_back(
          text(palettes_.count, " of ", accepted_,
               " images are PNGs with a palette, whose colours became gray (--gray); the first "
               "is ",
               place_of(palettes_.first),
               ". Where the indices are labels, these are lost: DenseImageData reads them from "
               "the files as label maps"));
    if (sizes_ == 0 || job_.sizes_may_vary) return;
    report_.warnings.push_back(
        text(sizes_, " of ", accepted_, " images differ in size from the first one, ",
             place_of(first_->index), " of ", size_of(first_->shape), "; the first that does is ",
             place_of(other_->index), " of ", size_of(other_->shape),
             job_.encoded ? "; data layers decode them, but do not resize them" : "",
             ". Give --resize_height and --resize_width, or let the data layer crop all to "
             "one size: transform_param { crop_size }"));
  }

  static std::string problem(const ListedFile& listed, const std::string& what) {
    return text(listed.place, ": image '", listed.path, "': ", what);
  }

 private:
  struct Seen {
    int64_t index = 0;
    Shape shape;
    bool has_floats = false;
  };
  /// Images of which something is lost.
  struct Lost {
    int64_t count = 0, first = 0;
  };
  static void count(bool lost, int64_t index, Lost& all) {
    if (lost && all.count++ == 0) all.first = index;
  }

  std::string place_of(int64_t index) const {
    const ListedFile listed = job_.listed(index);
    return text("'", listed.name, "' (", listed.place, ")");
  }

  static std::string size_of(const Shape& shape) {
    return text(shape[1], " x ", shape[2], " pixels");
  }

  const ListConversion& job_;
  ConvertReport report_;
  std::optional<Seen> first_, other_;  // the first image, and the first of another size
  int64_t sizes_ = 0, accepted_ = 0;
  Lost deep_, palettes_;
};

}  // namespace

ImageRecords::ImageRecords(ImageRecordOptions options)
    : options_(std::move(options)),
      encoded_(options_.encoded || !options_.encode_type.empty()),
      resizes_(options_.resize_height > 0 || options_.min_dim > 0 || options_.max_dim > 0),
      mode_(options_.gray ? ColorMode::gray : ColorMode::color) {
  const bool gray = options_.gray;
  const int64_t height = options_.resize_height, width = options_.resize_width;
  const int64_t least = options_.min_dim, most = options_.max_dim;
  if (options_.keep_depth && encoded_)
    throw Error(
        "--keep_depth makes records of floats, and --encoded and --encode_type keep images "
        "compressed; give one of the two");
  if (options_.interpolation && !resizes_)
    throw Error(
        "--interp says how images are resized, and nothing resizes them; give --resize, or leave "
        "it out");
  if (height < 0 || width < 0 || (height == 0) != (width == 0))
    throw Error("images cannot be resized to ", height, " x ", width,
                "; give both --resize_height and --resize_width, or neither");
  if (least < 0 || most < 0 || (least > 0 && most > 0 && least > most))
    throw Error("the sides of images cannot be from ", least, " to ", most,
                "; give --min_dim and --max_dim in this order, or one of them");
  if (height > 0 && (least > 0 || most > 0))
    throw Error(
        "--min_dim and --max_dim keep the aspect ratio, --resize_height and "
        "--resize_width do not; give one of the two");
  if (!encoded_) check_bytes(gray ? 1 : 3, height, width);
}

std::optional<ImageSize> ImageRecords::resized(ImageSize size) const {
  if (options_.resize_height > 0) return ImageSize{options_.resize_height, options_.resize_width};
  const auto [shorter, longer] = std::minmax(size.height, size.width);
  double factor = 1;
  if (options_.min_dim > 0 && shorter < options_.min_dim)
    factor = static_cast<double>(options_.min_dim) / static_cast<double>(shorter);
  if (options_.max_dim > 0 &&
      static_cast<int64_t>(factor * static_cast<double>(longer)) > options_.max_dim)
    factor = static_cast<double>(options_.max_dim) / static_cast<double>(longer);
  if (factor == 1) return std::nullopt;
  const auto scaled = [factor](int64_t side) {
    return std::max<int64_t>(1, std::llround(factor * static_cast<double>(side)));
  };
  return ImageSize{scaled(size.height), scaled(size.width)};
}

ImageRecords::Filled ImageRecords::fill(const std::string& bytes, ImageDecoder& decoder,
                                        Datum& datum) const {
  return encoded_ ? keep_encoded(bytes, decoder, datum) : keep_raw(bytes, decoder, datum);
}

Image ImageRecords::decode(const std::string& bytes, ImageDecoder& decoder, Filled& filled) const {
  const Image opened = decoder.open(bytes, mode_, options_.keep_depth ? Depth::own : Depth::bytes);
  filled.original = {opened.height, opened.width};
  filled.sideways = decoder.is_sideways();
  filled.loss = decoder.loss();
  const auto size = resizes_ ? resized(filled.original) : std::nullopt;
  const Image image =
      size ? decoder.changed({resize_to(*size, options_.interpolation)}) : decoder.whole();
  filled.shape = image.shape();
  filled.has_floats = image.floats != nullptr;
  return image;
}

ImageRecords::Filled ImageRecords::keep_raw(const std::string& bytes, ImageDecoder& decoder,
                                            Datum& datum) const {
  Filled filled;
  const Image image = decode(bytes, decoder, filled);
  set_size(image, datum);
  datum.set_encoded(false);
  if (filled.has_floats) {
    check_bytes(image.channels, image.height, image.width, sizeof(float));
    auto& values = *datum.mutable_float_data();
    values.Resize(static_cast<int>(image.count()), 0.0f);
    copy_planes(image, image.floats, values.mutable_data());
  } else {
    check_bytes(image.channels, image.height, image.width);
    std::string& pixels = *datum.mutable_data();
    pixels.resize(static_cast<size_t>(image.count()));
    copy_planes(image, image.bytes, reinterpret_cast<uint8_t*>(pixels.data()));
  }
  return filled;
}

ImageRecords::Filled ImageRecords::keep_encoded(const std::string& bytes, ImageDecoder& decoder,
                                                Datum& datum) const {
  check_is_image(bytes);
  const std::string_view own = image_type(bytes);
  // Other programs that read databases have no GIF.
  const std::string kept(own == "gif" ? "png" : own);
  std::string type =
      options_.encode_type.empty() ? kept : image_extension("." + options_.encode_type);
  if (own == "pnm" && (type == "ppm" || type == "pgm")) type = own;
  datum.set_encoded(true);
  if (type == own) {
    const auto image = decode_as_stored(bytes, decoder);
    if (image && !(resizes_ && resized({image->height, image->width}))) {
      set_size(*image, datum);
      datum.set_data(bytes);
      return {.shape = image->shape(),
              .original = {image->height, image->width},
              .sideways = decoder.is_sideways()};
    }
  }
  Filled filled;
  const Image image = decode(bytes, decoder, filled);
  set_size(image, datum);
  datum.set_data(ImageCodec::encode(image, type));
  return filled;
}

/// The image, when its file decodes to the channels wanted without being told: then the file itself
/// can be the record, with the orientation that it says.
std::optional<Image> ImageRecords::decode_as_stored(const std::string& bytes,
                                                    ImageDecoder& decoder) const {
  if (options_.resize_height > 0) return std::nullopt;
  try {
    decoder.open(bytes, ColorMode::as_stored);
    const Image image = decoder.whole();
    if (image.channels == (mode_ == ColorMode::gray ? 1 : 3)) return image;
  } catch (const Error&) {
    // More than 8 bits, or no image at all: decode() knows.
  }
  return std::nullopt;
}

ConvertReport convert_list(const ListConversion& job) {
  const DatabaseKind kind = database_kind(job.backend);
  std::unique_ptr<DatabaseWriter> writer;
  if (!job.check_only) {
    writer = make_database_writer(kind, job.output, job.overwrite);
    writer->name_classes(job.class_names);
  }

  const auto threads = static_cast<size_t>(std::max(1, omp_get_max_threads()));
  std::vector<ImageDecoder> decoders(threads);
  std::vector<ConvertedImage> chunk(threads * kChunkPerThread);
  Collector collector(job);
  for (int64_t done = 0; done < job.count;) {
    const int64_t size = std::min<int64_t>(static_cast<int64_t>(chunk.size()), job.count - done);
    parallel_for(size, 1, [&](int64_t begin, int64_t end) {
      ImageDecoder& own = decoders[static_cast<size_t>(thread_number())];
      for (int64_t i = begin; i < end; ++i) {
        ConvertedImage& converted = chunk[static_cast<size_t>(i)];
        converted = {};
        try {
          job.convert(done + i, own, converted);
        } catch (const std::exception& error) {
          converted.problem = Collector::problem(job.listed(done + i), error.what());
        }
      }
    });
    for (int64_t i = 0; i < size; ++i) {
      ConvertedImage& converted = chunk[static_cast<size_t>(i)];
      if (collector.accepts(done + i, converted) && writer) {
        writer->put(key_of(done + i, job.listed(done + i).name), converted.record);
        ++collector.report().written;
      }
      if (job.progress) job.progress(done + i + 1, job.count);
    }
    done += size;
  }
  collector.warn();
  ConvertReport& report = collector.report();
  if (writer) {
    if (report.written == 0) {
      throw Error("none of the ", job.count, " images of '", job.list,
                  "' could be read; the first: ", report.problems.front());
    }
    writer->finish();
  }
  return report;
}

}  // namespace crema
