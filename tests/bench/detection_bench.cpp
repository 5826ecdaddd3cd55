// Milliseconds a picture of DetectionOutput's choice with the sizes of SSD300 (8,732 prior boxes,
// 21 classes, threshold 0.01, top_k 400, keep_top_k 200), for confidences as trained nets give them
// (most of them background), as nets in training, and as untrained ones (all candidates). The least
// of several rounds, since other programs only ever add to a time.
//
//   detection_bench [ROUNDS]
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "core/parallel.hpp"
#include "core/simd.hpp"
#include "crema/random.hpp"
#include "layers/detection_output/detection_choice.hpp"

namespace crema {
namespace {

constexpr int64_t kClasses = 21;

struct Batch {
  std::vector<float> locations, confidences, priors;
  int64_t images = 0, count = 0;

  DetectionInput<float> input() const {
    return {.images = images,
            .priors = count,
            .locations = locations.data(),
            .confidences = confidences.data(),
            .boxes = priors.data()};
  }
};

/// Softmax of normal numbers times `spread`, `background` added to class 0's.
Batch make_batch(int64_t images, float background, float spread) {
  Batch batch;
  batch.images = images;
  Random random(1, 1);
  const auto normal = [&] {
    return std::sqrt(-2 * std::log(1 - random.uniform())) * std::cos(6.2831853F * random.uniform());
  };
  for (const auto& [side, boxes] : {std::pair{38, 4}, {19, 6}, {10, 6}, {5, 6}, {3, 4}, {1, 4}}) {
    for (int i = 0; i < side * side; ++i) {
      const float x = (static_cast<float>(i % side) + 0.5F) / static_cast<float>(side);
      const float y = (static_cast<float>(i / side) + 0.5F) / static_cast<float>(side);
      for (int b = 0; b < boxes; ++b) {
        const float width = (1 + 0.3F * static_cast<float>(b)) / static_cast<float>(side);
        const float height = (2 - 0.3F * static_cast<float>(b)) / static_cast<float>(side);
        batch.priors.insert(batch.priors.end(),
                            {x - width / 2, y - height / 2, x + width / 2, y + height / 2});
      }
    }
  }
  batch.count = static_cast<int64_t>(batch.priors.size() / 4);
  for (int64_t p = 0; p < batch.count; ++p) {
    batch.priors.insert(batch.priors.end(), {0.1F, 0.1F, 0.2F, 0.2F});
  }
  for (int64_t i = 0; i < images * batch.count; ++i) {
    for (int k = 0; k < 4; ++k) batch.locations.push_back(normal());
    float sum = 0;
    for (int64_t c = 0; c < kClasses; ++c) {
      const float value = std::exp(spread * normal() + (c == 0 ? background : 0));
      batch.confidences.push_back(value);
      sum += value;
    }
    for (auto at = batch.confidences.end() - kClasses; at != batch.confidences.end(); ++at)
      *at /= sum;
  }
  return batch;
}

double milliseconds(const Batch& batch, int threads, int rounds, int64_t& found) {
  using Clock = std::chrono::steady_clock;
  const ThreadScope scope(threads);
  DetectionChoice<float> choice({.classes = kClasses,
                                 .coder = {BoxCode::center_size},
                                 .suppression = {.threshold = 0.45, .top_k = 400},
                                 .keep = 200,
                                 .least = static_cast<double>(0.01F)});
  double least = 1e9;
  for (int i = 0; i < rounds; ++i) {
    const auto start = Clock::now();
    choice.run(batch.input());
    const std::chrono::duration<double, std::milli> took = Clock::now() - start;
    least = std::min(least, took.count());
  }
  found = choice.count();
  return least / static_cast<double>(batch.images);
}

}  // namespace
}  // namespace crema

int main(int argc, char** argv) {
  using namespace crema;
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 50;
  struct Kind {
    const char* name;
    float background, spread;
  };
  std::printf("%-12s %7s %12s %9s %9s %9s %9s\n", "confidences", "images", "candidates", "level",
              "1 thread", "2 threads", "boxes");
  for (const Kind& kind :
       {Kind{"trained", 8, 1.5F}, {"in training", 4, 1}, {"untrained", 0, 0.2F}}) {
    for (const int64_t images : {1, 8}) {
      const Batch batch = make_batch(images, kind.background, kind.spread);
      int64_t candidates = 0;
      for (size_t i = 0; i < batch.confidences.size(); ++i) {
        candidates += i % kClasses != 0 && batch.confidences[i] > 0.01F ? 1 : 0;
      }
      for (const auto level : {SimdLevel::sse4, SimdLevel::avx2, SimdLevel::avx512}) {
        if (simd_level() < level) continue;
        const SimdLimit limit(level);
        int64_t found = 0;
        const double one = milliseconds(batch, 1, rounds, found);
        const double two = milliseconds(batch, 2, rounds, found);
        std::printf("%-12s %7lld %12lld %9s %9.3f %9.3f %9lld\n", kind.name,
                    static_cast<long long>(images), static_cast<long long>(candidates / images),
                    std::string(to_string(level)).c_str(), one, two,
                    static_cast<long long>(found / images));
      }
    }
  }
}
