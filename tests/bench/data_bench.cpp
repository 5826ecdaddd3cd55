// What data cost: reading records, cutting and converting them, whole batches.
#include <benchmark/benchmark.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>

#include "data/batches/sampler.hpp"
#include "data/databases/lmdb_writer.hpp"
#include "data/databases/open_database.hpp"
#include "data/images/image_codec.hpp"
#include "data/transform/transform.hpp"
#include "layers/data/data.hpp"
#include "proto/datum.pb.h"
#include "proto/layer.pb.h"
#include "support/database.hpp"
#include "support/jpeg_file.hpp"
#include "support/needs.hpp"

namespace crema {
namespace {

/// Databases of random pixels, made once and removed at exit.
class Databases {
 public:
  ~Databases() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  static std::string get(int count, int channels, int side) {
    static Databases databases;
    const auto path = databases.folder_ / text(count, "_", channels, "_", side);
    if (!std::filesystem::exists(path)) write(path.string(), count, channels, side);
    return path.string();
  }

 private:
  static void write(const std::string& path, int count, int channels, int side) {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    LmdbWriter writer(path);
    Random random(1, 2);
    Datum datum;
    datum.set_channels(channels);
    datum.set_height(side);
    datum.set_width(side);
    for (int i = 0; i < count; ++i) {
      std::string& pixels = *datum.mutable_data();
      pixels.resize(static_cast<size_t>(channels * side * side));
      for (char& pixel : pixels) pixel = static_cast<char>(random.next_u32());
      writer.put(text(10'000'000 + i), datum.SerializeAsString());
    }
    writer.finish();
  }

  std::filesystem::path folder_ = std::filesystem::temp_directory_path() / "crema_data_bench";
};

void read_records(benchmark::State& state) {
  const bool shuffle = state.range(0) != 0;
  const auto source = open_database({.path = Databases::get(20000, 1, 28)});
  const auto reader = source->reader(shuffle ? ReadOrder::random : ReadOrder::forward);
  Sampler sampler({.count = source->count(), .shuffle = shuffle});
  for (auto _ : state) benchmark::DoNotOptimize(reader->read(sampler.next().record));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(read_records)->ArgName("shuffle")->Arg(0)->Arg(1);

void transform(benchmark::State& state, const std::string& settings, bool mirrored) {
  TransformationParameter param;
  google::protobuf::TextFormat::ParseFromString(settings, &param);
  const Transform transform(param, Phase::train);
  std::vector<uint8_t> pixels(3 * 256 * 256, 100);
  const Image image{.channels = 3, .height = 256, .width = 256, .bytes = pixels.data()};
  const Shape shape = transform.output_shape(image);
  std::vector<uint8_t> cut(static_cast<size_t>(shape.count()));
  std::vector<float> out(cut.size());
  const Placement placement{.top = 3, .left = 5, .mirrored = mirrored};
  for (auto _ : state) {
    transform.cut(image, placement, cut.data());
    transform.convert(cut.data(), shape, placement, out.data());
    benchmark::DoNotOptimize(out.data());
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK_CAPTURE(transform, crop, "crop_size: 227 mean_value: 104", false);
BENCHMARK_CAPTURE(transform, crop_mirrored, "crop_size: 227 mean_value: 104 mirror: true", true);

/// Images a second of the whole way, and the share of it that the caller waited.
void data_layer(benchmark::State& state, const std::string& settings, int count, int channels,
                int side) {
  LayerParameter param;
  google::protobuf::TextFormat::ParseFromString(settings, &param);
  param.set_name("data");
  param.mutable_data_param()->set_source(Databases::get(count, channels, side));
  param.mutable_data_param()->set_backend(DataParameter::LMDB);
  Context context;
  const RunState run;
  DataLayer layer(LayerInit{.param = param, .context = context, .run = run});
  Blob data(Shape{0}), label(Shape{0});
  Blob* const tops[] = {&data, &label};
  layer.setup({}, tops);
  layer.reshape({}, tops);
  for (auto _ : state) layer.forward_cpu({}, tops);
  state.SetItemsProcessed(state.iterations() * layer.records_per_batch());
  state.counters["waited_s"] = layer.take_wait_seconds();
}
BENCHMARK_CAPTURE(data_layer, lenet,
                  "data_param { batch_size: 64 } transform_param { scale: 0.00390625 }", 20000, 1,
                  28)
    ->UseRealTime();
BENCHMARK_CAPTURE(
    data_layer, lenet_shuffled,
    "data_param { batch_size: 64 shuffle: true } transform_param { scale: 0.00390625 }", 20000, 1,
    28)
    ->UseRealTime();
BENCHMARK_CAPTURE(
    data_layer, alexnet,
    "data_param { batch_size: 32 } transform_param { crop_size: 227 mirror: true mean_value: 104 }",
    512, 3, 256)
    ->UseRealTime();

/// JPEG files of 256 x 256 pixels and 22 KB, in a source of each kind.
struct Photos {
  std::filesystem::path folder = std::filesystem::temp_directory_path() / "crema_jpeg_bench";
  std::vector<std::string> files;

  Photos() {
    constexpr int kSide = 256, kMargin = 200, kCount = 128;
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    const auto pixels = test::picture(kSide + kMargin, kSide + kMargin, 3);
    test::Records records, members;
    Random random(1, 3);
    for (int i = 0; i < kCount; ++i) {
      std::vector<uint8_t> part;
      const size_t top = random.below(kMargin), left = random.below(kMargin);
      for (size_t row = top; row < top + kSide; ++row) {
        const auto begin =
            pixels.begin() + static_cast<int64_t>((row * (kSide + kMargin) + left) * 3);
        part.insert(part.end(), begin, begin + kSide * 3);
      }
      files.push_back(test::jpeg_file(part, kSide, kSide, {.quality = 76}));
      Datum datum;
      datum.set_encoded(true);
      datum.set_data(files.back());
      records.emplace_back(text(10'000'000 + i), datum.SerializeAsString());
      members.emplace_back(text("photos/", i, ".jpg"), files.back());
    }
    test::write_database((folder / "lmdb").string(), records);
    if (test::kBuiltWithLevelDb)
      test::write_database((folder / "leveldb").string(), records, DatabaseKind::leveldb);
    std::ofstream(folder / "tar", std::ios::binary) << test::tar(members);
  }
  ~Photos() {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }
  static const Photos& get() {
    static const Photos photos;
    return photos;
  }
};

using Seconds = std::chrono::duration<double>;
double seconds() { return Seconds(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// Seconds in which two threads decode `rounds` times all files by OpenCV alone.
double decode_alone(const Photos& photos, int rounds) {
  const double begin = seconds();
  const auto half = [&](size_t first) {
    ImageCodec codec;
    for (int round = 0; round < rounds; ++round) {
      for (size_t i = first; i < photos.files.size(); i += 2)
        benchmark::DoNotOptimize(codec.decode(photos.files[i], ColorMode::color).bytes);
    }
  };
  std::thread other(half, 0);
  half(1);
  other.join();
  return seconds() - begin;
}

/// The whole way of a JPEG from its source into a float batch, in turns with decoding alone, since
/// other programs on the machine slow both: images a second of each, and their ratio. The ratio of
/// the processor time that each takes depends less on what else runs.
void jpeg_layer(benchmark::State& state, const std::string& settings, DataParameter::DB backend) {
  if (backend == DataParameter::LEVELDB && !test::kBuiltWithLevelDb)
    return state.SkipWithError("needs CREMA_LEVELDB=ON");
  if (backend == DataParameter::TAR && !test::kBuiltWithLibarchive)
    return state.SkipWithError("needs CREMA_LIBARCHIVE=ON");
  const Photos& photos = Photos::get();
  LayerParameter param;
  google::protobuf::TextFormat::ParseFromString(
      "data_param { batch_size: 32 threads: 2 } " + settings, &param);
  param.set_name("data");
  param.mutable_data_param()->set_backend(backend);
  const char* const name = backend == DataParameter::LMDB  ? "lmdb"
                           : backend == DataParameter::TAR ? "tar"
                                                           : "leveldb";
  param.mutable_data_param()->set_source((photos.folder / name).string());
  ContextOptions options;
  options.threads = 2;
  Context context(options);
  const RunState run;
  DataLayer layer(LayerInit{.param = param, .context = context, .run = run});
  Blob data(Shape{0}), label(Shape{0});
  Blob* const tops[] = {&data, &label};
  layer.setup({}, tops);
  layer.reshape({}, tops);
  constexpr int kRounds = 4;
  const auto images = static_cast<double>(photos.files.size()) * kRounds;
  std::vector<double> alone, whole, ratios, cpu_ratios;
  for (auto _ : state) {
    const std::clock_t start = std::clock();
    alone.push_back(images / decode_alone(photos, kRounds));
    const std::clock_t middle = std::clock();
    layer.restart();  // nothing is read ahead
    const double begin = seconds();
    for (int i = 0; i < static_cast<int>(images) / 32; ++i) layer.forward_cpu({}, tops);
    whole.push_back(images / (seconds() - begin));
    layer.restart();
    cpu_ratios.push_back(static_cast<double>(middle - start) /
                         static_cast<double>(std::clock() - middle));
    ratios.push_back(whole.back() / alone.back());
  }
  const auto median = [](std::vector<double>& values) {
    std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(values.size() / 2),
                     values.end());
    return values[values.size() / 2];
  };
  state.counters["opencv_per_s"] = median(alone);
  state.counters["layer_per_s"] = median(whole);
  state.counters["ratio"] = median(ratios);
  state.counters["cpu_ratio"] = median(cpu_ratios);
  state.counters["bytes"] = static_cast<double>(photos.files[0].size());
}
#define CREMA_JPEG_BENCH(name, settings, backend)                       \
  BENCHMARK_CAPTURE(jpeg_layer, name, settings, DataParameter::backend) \
      ->UseRealTime()                                                   \
      ->Iterations(15)
constexpr const char* kCropMirrorMean =
    "transform_param { crop_size: 227 mirror: true mean_value: 104 mean_value: 117 "
    "mean_value: 123 }";
CREMA_JPEG_BENCH(crop_mirror_mean, kCropMirrorMean, LMDB);
CREMA_JPEG_BENCH(crop_mirror_mean_leveldb, kCropMirrorMean, LEVELDB);
CREMA_JPEG_BENCH(crop_mirror_mean_tar, kCropMirrorMean, TAR);
CREMA_JPEG_BENCH(random_crop,
                 "transform_param { crop_size: 224 mirror: true random_crop_param {} }", LMDB);
CREMA_JPEG_BENCH(colours,
                 "transform_param { crop_size: 227 distort_param { brightness_prob: 0.5 "
                 "brightness_delta: 32 contrast_prob: 0.5 contrast_lower: 0.5 contrast_upper: 1.5 "
                 "saturation_prob: 0.5 saturation_lower: 0.5 saturation_upper: 1.5 hue_prob: 0.5 "
                 "hue_delta: 18 } }",
                 LMDB);

/// One step on an image of 256 x 256.
void image_step(benchmark::State& state, const ImageStep& step) {
  const auto pixels = test::picture(256, 256, 3);
  const Image image{
      .channels = 3, .height = 256, .width = 256, .interleaved = true, .bytes = pixels.data()};
  ImageEditor editor;
  for (auto _ : state)
    benchmark::DoNotOptimize(editor.apply(image, {.height = 256, .width = 256}, {step}).bytes);
}
BENCHMARK_CAPTURE(image_step, shrink, Resize{{227, 227}});
BENCHMARK_CAPTURE(image_step, enlarge, Resize{{320, 320}});
BENCHMARK_CAPTURE(image_step, rotate, Rotate{.degrees = 17});
BENCHMARK_CAPTURE(image_step, brightness, Linear{.offset = 7});
BENCHMARK_CAPTURE(image_step, saturation, Saturate{1.1});
BENCHMARK_CAPTURE(image_step, hue, TurnHue{7});
BENCHMARK_CAPTURE(image_step, channel_order, Permute{{2, 0, 1}});
BENCHMARK_CAPTURE(image_step, blur, Blur{.sigma = 1});

}  // namespace
}  // namespace crema
