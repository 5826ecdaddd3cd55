// What data cost: reading records, cutting and converting them, whole batches.
#include <benchmark/benchmark.h>
#include <google/protobuf/text_format.h>

#include <filesystem>
#include <numeric>

#include "data/lmdb_writer.hpp"
#include "data/record_source.hpp"
#include "data/sampler.hpp"
#include "data/transform.hpp"
#include "layers/data/data.hpp"
#include "proto/datum.pb.h"
#include "proto/layer.pb.h"

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
    const auto path = databases.folder_ / concat(count, "_", channels, "_", side);
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
      writer.put(concat(10'000'000 + i), datum.SerializeAsString());
    }
    writer.finish();
  }

  std::filesystem::path folder_ = std::filesystem::temp_directory_path() / "crema_data_bench";
};

void read_records(benchmark::State& state) {
  const bool shuffle = state.range(0) != 0;
  const auto source = open_database({.path = Databases::get(20000, 1, 28)});
  const auto reader = source->reader(shuffle ? Access::random : Access::forward);
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
  for (auto _ : state) layer.forward({}, tops);
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

}  // namespace
}  // namespace crema
