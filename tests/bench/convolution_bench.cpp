// Speed of convolution primitives, one line for each problem, pass, pair of formats and
// implementation:
//
//   convolution_bench [--threads N] [--pass forward|backward-data|backward-weights]
//                     [--library NAME] [--runs N] [--batch N] [--cold] [--formats all|blocked]
//                     [--simd avx2|avx512] NET[/LAYER]...
//
// NET is lenet, alexnet, vgg_a, googlenet, resnet50, mobilenet_v2 (its depthwise layers), caffenet
// or resnext50 (their layers with groups), each with the batch of its benchmark. Weights count as
// changed before each run, as in training. With one thread it is CPU time that counts, which other
// programs disturb least; with more, elapsed time. The fastest run is printed. With --cold, the
// caches hold neither source nor target of a run, as in a large net: the runs have tensors by turns
// that are larger than the caches together. The weights may still be there.
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "core/simd.hpp"
#include "crema/registry.hpp"
#include "layers/convolution/engine.hpp"

namespace crema {
namespace {

struct Problem {
  std::string name;
  int64_t batch, channels, extent, outputs, kernel, stride, pad;
  int64_t groups = 1;
};

struct Arguments {
  int threads = omp_get_max_threads();
  int runs = 10;
  int64_t batch = 0;  // 0: that of the net
  bool cold = false, blocked = false;
  std::optional<SimdLevel> simd;
  std::string pass, library;
  std::vector<std::string> nets;
};

std::vector<Problem> lenet() {
  return {{"lenet/conv1", 64, 1, 28, 20, 5, 1, 0}, {"lenet/conv2", 64, 20, 12, 50, 5, 1, 0}};
}

std::vector<Problem> alexnet() {
  return {{"alexnet/conv1", 32, 3, 224, 64, 11, 4, 2},
          {"alexnet/conv2", 32, 64, 27, 192, 5, 1, 2},
          {"alexnet/conv3", 32, 192, 13, 384, 3, 1, 1},
          {"alexnet/conv4", 32, 384, 13, 256, 3, 1, 1},
          {"alexnet/conv5", 32, 256, 13, 256, 3, 1, 1}};
}

std::vector<Problem> vgg_a() {
  std::vector<Problem> problems;
  const int64_t shapes[][3] = {{3, 224, 64},   {64, 112, 128}, {128, 56, 256}, {256, 56, 256},
                               {256, 28, 512}, {512, 28, 512}, {512, 14, 512}};
  for (const auto& [channels, extent, outputs] : shapes) {
    problems.push_back(
        {text("vgg_a/conv", problems.size() + 1), 8, channels, extent, outputs, 3, 1, 1});
  }
  return problems;
}

std::vector<Problem> googlenet() {
  constexpr int64_t kBatch = 16;
  std::vector<Problem> problems = {{"googlenet/conv1", kBatch, 3, 224, 64, 7, 2, 3},
                                   {"googlenet/conv2_reduce", kBatch, 64, 56, 64, 1, 1, 0},
                                   {"googlenet/conv2", kBatch, 64, 56, 192, 3, 1, 1}};
  struct Inception {
    const char* name;
    int64_t extent, channels, one, reduce3, three, reduce5, five, pool;
  };
  const Inception modules[] = {
      {"3a", 28, 192, 64, 96, 128, 16, 32, 32},     {"3b", 28, 256, 128, 128, 192, 32, 96, 64},
      {"4a", 14, 480, 192, 96, 208, 16, 48, 64},    {"4b", 14, 512, 160, 112, 224, 24, 64, 64},
      {"4c", 14, 512, 128, 128, 256, 24, 64, 64},   {"4d", 14, 512, 112, 144, 288, 32, 64, 64},
      {"4e", 14, 528, 256, 160, 320, 32, 128, 128}, {"5a", 7, 832, 256, 160, 320, 32, 128, 128},
      {"5b", 7, 832, 384, 192, 384, 48, 128, 128}};
  for (const Inception& m : modules) {
    const auto add = [&](const char* part, int64_t in, int64_t out, int64_t kernel) {
      problems.push_back({text("googlenet/", m.name, "_", part), kBatch, in, m.extent, out, kernel,
                          1, kernel / 2});
    };
    add("1x1", m.channels, m.one, 1);
    add("3x3_reduce", m.channels, m.reduce3, 1);
    add("3x3", m.reduce3, m.three, 3);
    add("5x5_reduce", m.channels, m.reduce5, 1);
    add("5x5", m.reduce5, m.five, 5);
    add("pool", m.channels, m.pool, 1);
  }
  return problems;
}

std::vector<Problem> resnet50() {
  constexpr int64_t kBatch = 8;
  std::vector<Problem> problems = {{"resnet50/conv1", kBatch, 3, 224, 64, 7, 2, 3}};
  int64_t channels = 64, extent = 56;
  for (int stage = 2; stage <= 5; ++stage) {
    const int64_t narrow = int64_t{64} << (stage - 2), wide = 4 * narrow;
    const int64_t stride = stage == 2 ? 1 : 2, out = extent / stride;
    const auto add = [&](const char* part, int64_t in, int64_t size, int64_t outputs,
                         int64_t kernel, int64_t step) {
      problems.push_back(
          {text("resnet50/", stage, part), kBatch, in, size, outputs, kernel, step, kernel / 2});
    };
    add("a_branch1", channels, extent, wide, 1, stride);
    add("a_2a", channels, extent, narrow, 1, stride);
    add("a_2b", narrow, out, narrow, 3, 1);
    add("a_2c", narrow, out, wide, 1, 1);
    add("b_2a", wide, out, narrow, 1, 1);
    channels = wide;
    extent = out;
  }
  return problems;
}

std::vector<Problem> mobilenet_v2() {
  std::vector<Problem> problems;
  const int64_t shapes[][3] = {{32, 112, 1}, {96, 112, 2}, {144, 56, 1}, {144, 56, 2}, {192, 28, 1},
                               {192, 28, 2}, {384, 14, 1}, {576, 14, 1}, {576, 14, 2}, {960, 7, 1}};
  for (const auto& [channels, extent, stride] : shapes) {
    problems.push_back({text("mobilenet_v2/", channels, "x", extent, "s", stride), 16, channels,
                        extent, channels, 3, stride, 1, channels});
  }
  return problems;
}

std::vector<Problem> caffenet() {
  return {{"caffenet/conv2", 32, 96, 27, 256, 5, 1, 2, 2},
          {"caffenet/conv4", 32, 384, 13, 384, 3, 1, 1, 2},
          {"caffenet/conv5", 32, 384, 13, 256, 3, 1, 1, 2}};
}

std::vector<Problem> resnext50() {
  std::vector<Problem> problems;
  const int64_t shapes[][3] = {{128, 56, 1}, {256, 56, 2},  {256, 28, 1}, {512, 28, 2},
                               {512, 14, 1}, {1024, 14, 2}, {1024, 7, 1}};
  for (const auto& [channels, extent, stride] : shapes) {
    problems.push_back({text("resnext50/", channels, "x", extent, "s", stride), 8, channels, extent,
                        channels, 3, stride, 1, 32});
  }
  return problems;
}

std::vector<Problem> problems_of(const std::string& name) {
  const std::string net = name.substr(0, name.find('/'));
  std::vector<Problem> problems = net == "lenet"          ? lenet()
                                  : net == "alexnet"      ? alexnet()
                                  : net == "vgg_a"        ? vgg_a()
                                  : net == "googlenet"    ? googlenet()
                                  : net == "resnet50"     ? resnet50()
                                  : net == "mobilenet_v2" ? mobilenet_v2()
                                  : net == "caffenet"     ? caffenet()
                                  : net == "resnext50"    ? resnext50()
                                                          : std::vector<Problem>{};
  if (net != name) std::erase_if(problems, [&](const Problem& p) { return p.name != name; });
  if (problems.empty())
    throw Error(
        "unknown problem '", name,
        "'; use lenet, alexnet, vgg_a, googlenet, resnet50 or mobilenet_v2, or one with /LAYER");
  return problems;
}

double seconds_now(int threads) {
  if (threads > 1) {
    using Clock = std::chrono::steady_clock;
    return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
  }
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

class Bench {
 public:
  explicit Bench(const Arguments& arguments) : arguments_(arguments) {}

  void run(const Problem& given) {
    const Format blocked = simd_level() == SimdLevel::avx512 ? Format::blocked16 : Format::blocked8;
    const int64_t extent = (given.extent + 2 * given.pad - given.kernel) / given.stride + 1;
    const int64_t batch = arguments_.batch > 0 ? arguments_.batch : given.batch;
    ConvolutionProblem problem{.source = {batch, given.channels, given.extent, given.extent},
                               .target = {batch, given.outputs, extent, extent},
                               .kernel = {given.kernel, given.kernel},
                               .stride = {given.stride, given.stride},
                               .pad = {given.pad, given.pad},
                               .dilation = {1, 1},
                               .groups = given.groups};
    std::vector<Format> formats = {blocked};
    if (!arguments_.blocked) formats = {blocked, Format::channels_last, Format::contiguous};
    for (const Format source : formats) {
      for (const Format target : formats) {
        problem.source_format = source;
        problem.target_format = target;
        for (const auto pass : {ConvolutionPass::forward, ConvolutionPass::backward_data,
                                ConvolutionPass::backward_weights}) {
          if (arguments_.pass.empty() || arguments_.pass == to_string(pass)) {
            run(given.name, problem, pass);
          }
        }
      }
    }
  }

 private:
  void run(const std::string& name, const ConvolutionProblem& problem, ConvolutionPass pass) {
    for (const auto& library : convolution_libraries()) {
      if (!arguments_.library.empty() && arguments_.library != library->name()) continue;
      std::string why;
      for (const auto& made :
           library->implementations(problem, pass, ConvolutionAlgorithm::any, why)) {
        const double seconds = fastest(*library->make(problem, pass, made), problem, pass);
        std::printf("%-24s %-16s %13s > %-13s %-38s %9.3f ms %8.1f GFLOP/s\n", name.c_str(),
                    std::string(to_string(pass)).c_str(),
                    std::string(to_string(problem.source_format)).c_str(),
                    std::string(to_string(problem.target_format)).c_str(),
                    text(library->name(), " ", made).c_str(), seconds * 1e3,
                    2e-9 * problem.multiply_adds() / seconds);
        std::fflush(stdout);
      }
    }
  }

  double fastest(ConvolutionPrimitive& primitive, const ConvolutionProblem& problem,
                 ConvolutionPass pass) const {
    constexpr size_t kLargerThanCaches = size_t{256} << 20;
    Tensor weights(problem.weights()), gradient(problem.weights());
    Tensor bias(Shape{problem.target[1]});
    for (Tensor* tensor : {&weights, &bias}) tensor->fill(0.01);
    std::vector<Tensor> xs, ys;
    for (size_t bytes = 0; xs.empty() || (arguments_.cold && bytes < kLargerThanCaches);
         bytes += xs.back().bytes() + ys.back().bytes()) {
      xs.emplace_back(problem.source, DType::f32, problem.source_format).fill(0.01);
      ys.emplace_back(problem.target, DType::f32, problem.target_format).fill(0.01);
    }
    double best = std::numeric_limits<double>::infinity();
    for (int run = 0; run < arguments_.runs; ++run) {
      Tensor& x = xs[static_cast<size_t>(run) % xs.size()];
      Tensor& y = ys[static_cast<size_t>(run) % ys.size()];
      const double start = seconds_now(arguments_.threads);
      if (pass == ConvolutionPass::forward) {
        primitive.forward(x.read<float>(), {weights.read<float>()}, bias.read<float>(),
                          y.change<float>());
      } else if (pass == ConvolutionPass::backward_data) {
        primitive.backward_data(y.read<float>(), {weights.read<float>()}, x.change<float>());
      } else {
        primitive.backward_weights(x.read<float>(), y.read<float>(), false,
                                   gradient.change<float>(), false, bias.change<float>());
      }
      best = std::min(best, seconds_now(arguments_.threads) - start);
    }
    return best;
  }

  const Arguments& arguments_;
};

Arguments parse(int count, char** values) {
  Arguments arguments;
  for (int i = 1; i < count; ++i) {
    const std::string word = values[i];
    if (!word.starts_with("--")) {
      arguments.nets.push_back(word);
      continue;
    }
    if (word == "--cold") {
      arguments.cold = true;
      continue;
    }
    if (i + 1 >= count) throw Error(word, " needs a value");
    const std::string value = values[++i];
    if (word == "--threads") {
      arguments.threads = std::stoi(value);
    } else if (word == "--runs") {
      arguments.runs = std::stoi(value);
    } else if (word == "--batch") {
      arguments.batch = std::stoi(value);
    } else if (word == "--formats") {
      if (value != "all" && value != "blocked")
        throw Error("--formats ", value, " is unknown; use all or blocked");
      arguments.blocked = value == "blocked";
    } else if (word == "--simd") {
      arguments.simd = simd_level_of(value);
      if (*arguments.simd < SimdLevel::avx2 || *arguments.simd > simd_level())
        throw Error("--simd ", value, ": use avx2 or avx512, and what this processor has");
    } else if (word == "--pass") {
      arguments.pass = value;
    } else if (word == "--library") {
      arguments.library = value;
    } else {
      throw Error("unknown option ", word,
                  "; there are --threads, --runs, --batch, --cold, --formats, --simd, --pass, "
                  "--library");
    }
  }
  if (arguments.nets.empty())
    throw Error(
        "name a net: lenet, alexnet, vgg_a, googlenet, resnet50, mobilenet_v2, caffenet or "
        "resnext50");
  return arguments;
}

}  // namespace
}  // namespace crema

int main(int count, char** values) {
  try {
    const crema::Arguments arguments = crema::parse(count, values);
    omp_set_num_threads(arguments.threads);
    std::optional<crema::SimdLimit> limit;
    if (arguments.simd) {
      limit.emplace(*arguments.simd);
      // oneDNN reads it at its first use.
      if (*arguments.simd == crema::SimdLevel::avx2) setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
    }
    crema::Registry::instance();
    crema::Bench bench(arguments);
    for (const std::string& net : arguments.nets) {
      for (const auto& problem : crema::problems_of(net)) bench.run(problem);
    }
  } catch (const crema::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
