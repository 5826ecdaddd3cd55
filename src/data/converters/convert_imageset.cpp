#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "core/parallel.hpp"
#include "crema/error.hpp"
#include "crema/random.hpp"
#include "data/converters.hpp"
#include "data/database_writer.hpp"
#include "data/image_codec.hpp"
#include "data/image_decoder.hpp"
#include "data/image_list.hpp"
#include "data/image_name.hpp"
#include "data/image_planes.hpp"
#include "proto/datum.pb.h"

namespace crema {
namespace {

// Images in flight a thread: enough to keep the threads busy, few enough for large photos.
constexpr int64_t kChunkPerThread = 8;
// Of a record's pixels: Protocol Buffers end at 2 GiB, with what stands beside the pixels.
constexpr int64_t kMostBytes = std::numeric_limits<int32_t>::max() - 1024;

struct Converted {
  std::string record;
  std::string problem;  // not empty: there is no record
  Shape shape{0, 0, 0};
};

/// Error when so many bytes do not fit into a record.
void check_bytes(int64_t channels, int64_t height, int64_t width) {
  if (channels * height * width > kMostBytes)
    throw Error("an image of ", channels, " x ", height, " x ", width,
                " bytes is too large for a record, which holds 2 GiB; make it smaller (--resize), ",
                "or keep it compressed (--encoded)");
}

class Converter {
 public:
  explicit Converter(const ConvertImagesetOptions& options)
      : options_(options),
        encoded_(options.encoded || !options.encode_type.empty()),
        mode_(options.gray ? ColorMode::gray : ColorMode::color) {}

  /// Whether records hold compressed images.
  bool encoded() const { return encoded_; }

  /// Safe to call from several threads, each with its own decoder.
  Converted convert(const ListedImage& listed, ImageDecoder& decoder) const {
    Converted result;
    try {
      std::string file;
      read_file_bytes(path_of(listed), file);
      Datum datum;
      set_labels(listed, datum);
      result.shape =
          encoded_ ? keep_encoded(listed, file, decoder, datum) : keep_raw(file, decoder, datum);
      if (!options_.check_only && !datum.SerializeToString(&result.record))
        throw Error("it cannot be made a record");
    } catch (const std::exception& error) {
      result.problem = problem(listed, error.what());
    }
    return result;
  }

  std::string problem(const ListedImage& listed, const std::string& what) const {
    return concat(options_.list, ":", listed.line, ": image '", path_of(listed), "': ", what);
  }

 private:
  std::string path_of(const ListedImage& listed) const {
    return image_path(options_.root, listed.file);
  }

  Image decode(const std::string& file, ImageDecoder& decoder) const {
    decoder.open(file, mode_);
    if (options_.resize_height == 0) return decoder.whole();
    return decoder.changed({Resize{.size = {options_.resize_height, options_.resize_width}}});
  }

  static void set_size(const Image& image, Datum& datum) {
    datum.set_channels(static_cast<int>(image.channels));
    datum.set_height(static_cast<int>(image.height));
    datum.set_width(static_cast<int>(image.width));
  }

  Shape keep_raw(const std::string& file, ImageDecoder& decoder, Datum& datum) const {
    const Image image = decode(file, decoder);
    check_bytes(image.channels, image.height, image.width);
    set_size(image, datum);
    datum.set_encoded(false);
    std::string& pixels = *datum.mutable_data();
    pixels.resize(static_cast<size_t>(image.count()));
    copy_planes(image, image.bytes, reinterpret_cast<uint8_t*>(pixels.data()));
    return image.shape();
  }

  Shape keep_encoded(const ListedImage& listed, const std::string& file, ImageDecoder& decoder,
                     Datum& datum) const {
    const std::string own = image_extension(listed.file);
    const std::string type =
        options_.encode_type.empty() ? own : image_extension("." + options_.encode_type);
    if (type.empty())
      throw Error("its name does not say what kind of image it is; give --encode_type");
    datum.set_encoded(true);
    if (options_.resize_height == 0 && type == own) {
      if (const auto image = decode_as_stored(file, decoder)) {
        set_size(*image, datum);
        datum.set_data(file);
        return image->shape();
      }
    }
    const Image image = decode(file, decoder);
    set_size(image, datum);
    datum.set_data(ImageCodec::encode(image, type));
    return image.shape();
  }

  /// The image, when its file decodes to the channels wanted without being told: then the file
  /// itself can be the record.
  std::optional<Image> decode_as_stored(const std::string& file, ImageDecoder& decoder) const {
    try {
      decoder.open(file, ColorMode::as_stored);
      const Image image = decoder.whole();
      if (image.channels == (mode_ == ColorMode::gray ? 1 : 3)) return image;
    } catch (const Error&) {
      // More than 8 bits, or no image at all: decode() knows.
    }
    return std::nullopt;
  }

  const ConvertImagesetOptions& options_;
  bool encoded_;
  ColorMode mode_;
};

/// Counts bad images, or throws at the first, as asked; and good ones that do not fit the others.
class Collector {
 public:
  Collector(const ConvertImagesetOptions& options, const Converter& converter)
      : options_(options), converter_(converter) {}

  ConvertReport& report() { return report_; }

  bool accepts(const ListedImage& listed, Converted& converted) {
    if (converted.problem.empty()) {
      if (!first_) first_ = {listed, converted.shape};
      const bool fits = converted.shape == first_->shape;
      if (fits || !options_.check_size) {
        if (!fits) sizes_.add(listed, converted.shape);
        if (listed.floats.empty()) look_at_label(listed, converted.shape);
        ++accepted_;
        return true;
      }
      converted.problem = converter_.problem(
          listed, concat("it is of ", converted.shape.str(), ", the first image ",
                         first_->shape.str(), "; resize them to one size"));
    }
    if (!options_.check_only && !options_.skip_bad)
      throw Error(converted.problem, " (--skip_bad leaves bad images out, --check lists them)");
    ++report_.bad;
    if (report_.problems.size() < ConvertReport::kMostProblems) {
      report_.problems.push_back(std::move(converted.problem));
    }
    return false;
  }

  /// To be called at the end.
  void warn() {
    if (sizes_.count > 0) {
      report_.warnings.push_back(
          concat(sizes_.count, " of ", accepted_, " images differ in size from the first one, ",
                 place_of(first_->listed), " of ", size_of(*first_), "; the first that does is ",
                 place_of(sizes_.first->listed), " of ", size_of(*sizes_.first),
                 converter_.encoded() ? "; data layers decode them, but do not resize them" : "",
                 ". Give --resize_height and --resize_width, or let the data layer crop all to "
                 "one size: transform_param { crop_size }"));
    }
    if (labels_.count > 0) {
      const ListedImage& listed = labels_.first->listed;
      report_.warnings.push_back(
          concat(labels_.count, " of ", accepted_, " labels are below 0, the first one ",
                 listed.label, " of ", place_of(listed),
                 "; losses over classes take one such label, given as ignore_label"));
    }
    if (inexact_.count > 0) {
      const ListedImage& listed = inexact_.first->listed;
      report_.warnings.push_back(concat(inexact_.count, " of ", accepted_,
                                        " labels have no exact value in f32, the first one ",
                                        listed.label, " of ", place_of(listed),
                                        "; nets in f32 refuse them: number the labels from 0"));
    }
  }

 private:
  struct Seen {
    ListedImage listed;
    Shape shape;
  };
  struct Oddities {
    int64_t count = 0;
    std::optional<Seen> first;
    void add(const ListedImage& listed, const Shape& shape) {
      if (++count == 1) first = {listed, shape};
    }
  };

  std::string place_of(const ListedImage& listed) const {
    return concat("'", listed.file, "' (", options_.list, ":", listed.line, ")");
  }

  void look_at_label(const ListedImage& listed, const Shape& shape) {
    if (listed.label < 0) labels_.add(listed, shape);
    const bool exact = static_cast<int64_t>(static_cast<float>(listed.label)) == listed.label;
    if (!exact) inexact_.add(listed, shape);
  }

  static std::string size_of(const Seen& seen) {
    return concat(seen.shape[1], " x ", seen.shape[2], " pixels");
  }

  const ConvertImagesetOptions& options_;
  const Converter& converter_;
  ConvertReport report_;
  std::optional<Seen> first_;
  Oddities sizes_, labels_, inexact_;
  int64_t accepted_ = 0;
};

void check_options(const ConvertImagesetOptions& options) {
  if (options.resize_height < 0 || options.resize_width < 0 ||
      (options.resize_height == 0) != (options.resize_width == 0))
    throw Error("images cannot be resized to ", options.resize_height, " x ", options.resize_width,
                "; give both --resize_height and --resize_width, or neither");
  if (!options.encoded && options.encode_type.empty()) {
    check_bytes(options.gray ? 1 : 3, options.resize_height, options.resize_width);
  }
}

void shuffle(std::vector<ListedImage>& images, uint64_t seed) {
  Random random(seed, stream_id("convert_imageset"));
  for (size_t i = images.size() - 1; i > 0; --i) {
    std::swap(images[i], images[static_cast<size_t>(random.below(i + 1))]);
  }
}

/// Long names keep their end, where they differ.
std::string key_of(int64_t number, const std::string& file) {
  std::array<char, 24> digits;
  std::snprintf(digits.data(), digits.size(), "%08lld_", static_cast<long long>(number));
  const std::string prefix = digits.data();
  const size_t room = DatabaseWriter::max_key_size() - prefix.size();
  return prefix + (file.size() <= room ? file : file.substr(file.size() - room));
}

}  // namespace

ConvertReport convert_imageset(const ConvertImagesetOptions& options) {
  check_options(options);
  std::vector<ListedImage> images = read_image_list(options.list);
  if (options.shuffle) shuffle(images, options.seed);
  const auto total = static_cast<int64_t>(images.size());
  const Converter converter(options);
  const DatabaseKind kind = database_kind(options.backend);
  std::unique_ptr<DatabaseWriter> writer;
  if (!options.check_only) writer = make_database_writer(kind, options.output, options.overwrite);

  const auto threads = static_cast<size_t>(std::max(1, omp_get_max_threads()));
  std::vector<ImageDecoder> decoders(threads);
  std::vector<Converted> chunk(threads * kChunkPerThread);
  Collector collector(options, converter);
  for (int64_t done = 0; done < total;) {
    const int64_t size = std::min<int64_t>(static_cast<int64_t>(chunk.size()), total - done);
    parallel_for(size, 1, [&](int64_t begin, int64_t end) {
      ImageDecoder& own = decoders[static_cast<size_t>(thread_number())];
      for (int64_t i = begin; i < end; ++i) {
        chunk[static_cast<size_t>(i)] =
            converter.convert(images[static_cast<size_t>(done + i)], own);
      }
    });
    for (int64_t i = 0; i < size; ++i) {
      const ListedImage& listed = images[static_cast<size_t>(done + i)];
      Converted& converted = chunk[static_cast<size_t>(i)];
      if (collector.accepts(listed, converted) && writer) {
        writer->put(key_of(done + i, listed.file), converted.record);
        ++collector.report().written;
      }
      if (options.progress) options.progress(done + i + 1, total);
    }
    done += size;
  }
  collector.warn();
  ConvertReport& report = collector.report();
  if (writer) {
    if (report.written == 0) {
      throw Error("none of the ", total, " images of '", options.list,
                  "' could be read; the first: ", report.problems.front());
    }
    writer->finish();
  }
  return report;
}

}  // namespace crema
