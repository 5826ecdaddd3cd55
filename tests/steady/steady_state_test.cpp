// What training does not do once it runs: it takes no memory and locks nothing.
//
// malloc and its kin and pthread_mutex_lock are replaced in this program, and count while Counting
// lives. What libraries do by themselves (oneDNN, OpenBLAS, OpenMP) is not counted.
#include <dlfcn.h>
#include <execinfo.h>
#include <gtest/gtest.h>
#include <omp.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "core/parallel.hpp"
#include "core/simd.hpp"
#include "crema/net.hpp"
#include "crema/solver.hpp"
#include "model/text_format.hpp"
#include "proto/solver.pb.h"
#include "support/database.hpp"
#include "support/net_test.hpp"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define CREMA_CAN_COUNT 0
#else
#define CREMA_CAN_COUNT 1
#endif

namespace {

/// A call of a counted function, by where it came from.
struct Call {
  const char* what;
  std::array<void*, 24> frames;
  int depth;
};

constexpr int kMostCalls = 4096;
Call calls[kMostCalls];
std::atomic<int> call_count{0};
std::atomic<bool> counting{false};
thread_local bool is_counted = false;  // of the threads that compute
thread_local bool is_noting = false;

[[maybe_unused]] void note(const char* what) {
  if (!counting.load(std::memory_order_relaxed) || !is_counted || is_noting) return;
  is_noting = true;
  const int at = call_count.fetch_add(1);
  if (at < kMostCalls) {
    calls[at].what = what;
    calls[at].depth = backtrace(calls[at].frames.data(), static_cast<int>(calls[at].frames.size()));
  }
  is_noting = false;
}

}  // namespace

#if CREMA_CAN_COUNT
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

void* malloc(size_t bytes) {
  note("malloc");
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  note("calloc");
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, size_t bytes) {
  note("realloc");
  return __libc_realloc(memory, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  note("aligned_alloc");
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  note("posix_memalign");
  *memory = __libc_memalign(alignment, bytes);
  return *memory != nullptr ? 0 : ENOMEM;
}
int pthread_mutex_lock(pthread_mutex_t* mutex) {
  using Lock = int (*)(pthread_mutex_t*);
  static std::atomic<Lock> next{nullptr};
  if (next.load() == nullptr) {
    next = reinterpret_cast<Lock>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  }
  note("pthread_mutex_lock");
  return next.load()(mutex);
}
}
#endif

namespace crema {
namespace {

std::string file_of(void* frame) {
  Dl_info info{};
  return dladdr(frame, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

bool is_of_library(const Call& call) {
  for (int i = 0; i < call.depth; ++i) {
    const std::string file = file_of(call.frames[static_cast<size_t>(i)]);
    for (const char* name : {"dnnl", "mkldnn", "openblas", "libblas", "libgomp", "libomp"}) {
      // OpenMP's threads begin in its library: what our loops do in them is ours.
      const bool is_team = std::string(name).find("omp") != std::string::npos;
      if (file.find(name) != std::string::npos && (!is_team || i < 3)) return true;
    }
  }
  return false;
}

/// Counts the calls of the calling thread and its team.
class Counting {
 public:
  explicit Counting(const Context& context) {
    const ThreadScope threads(context.threads());
#pragma omp parallel
    is_counted = true;
    std::array<void*, 4> frames;
    backtrace(frames.data(), 4);  // the first one loads a library
    call_count = 0;
    counting = true;
  }
  ~Counting() { counting = false; }
  Counting(const Counting&) = delete;
  Counting& operator=(const Counting&) = delete;

  /// The calls so far that are ours, with the functions that led to them; "" when there is none.
  std::string ours(bool with_locks = true) const {
    counting = false;
    std::string text;
    int found = 0;
    for (int i = 0; i < std::min(call_count.load(), kMostCalls); ++i) {
      const Call& call = calls[i];
      if (is_of_library(call)) continue;
      if (!with_locks && std::string(call.what) == "pthread_mutex_lock") continue;
      if (++found > 5) continue;
      char** const names = backtrace_symbols(call.frames.data(), call.depth);
      text += call.what;
      for (int f = 1; f < call.depth; ++f) text += std::string("\n    ") + names[f];
      text += '\n';
      free(names);
    }
    return found == 0 ? "" : std::to_string(found) + " calls\n" + text;
  }
};

const char* const kLayers = R"(
  layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
          param { lr_mult: 1 } param { lr_mult: 2 }
          convolution_param { num_output: 20 kernel_size: 5 weight_filler { type: "xavier" } } }
  layer { name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1"
          pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
  layer { name: "conv2" type: "Convolution" bottom: "pool1" top: "conv2"
          param { lr_mult: 1 noise { std: 0.001 } } param { lr_mult: 2 }
          convolution_param { num_output: 50 kernel_size: 5 weight_filler { type: "xavier" } } }
  layer { name: "pool2" type: "Pooling" bottom: "conv2" top: "pool2"
          pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
  layer { name: "ip1" type: "InnerProduct" bottom: "pool2" top: "ip1"
          param { noise { std: 0.01 relative_to: RANGE } }
          inner_product_param { num_output: 500 weight_filler { type: "xavier" } } }
  layer { name: "relu1" type: "ReLU" bottom: "ip1" top: "ip1" }
  layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2"
          inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }
  layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "label" top: "loss" } }
)";

SolverParameter lenet(const std::string& source) {
  SolverParameter param;
  parse_text_proto(text("base_lr: 0.01 lr_policy: 'inv' gamma: 0.0001 power: 0.75 momentum: 0.9 ",
                        "weight_decay: 0.0005 net_param { name: 'lenet' ", source, kLayers),
                   "solver.prototxt", param);
  return param;
}

/// Iterations after which everything is made that lasts.
constexpr int kWarm = 3;
constexpr int kCounted = 10;

TEST(SteadyState, TrainingLeNetTakesNoMemoryAndNoLock) {
  if (!CREMA_CAN_COUNT)
    GTEST_SKIP()
        << "needs a build without sanitizers, which have their own malloc: set no CREMA_SANITIZE";
  for (const std::string engine : {"", "direct", "reference"}) {
    if (engine == "direct" && simd_level() < SimdLevel::avx2) continue;
    Context context({.threads = 2, .engine = engine});
    Solver solver(lenet(R"(
  layer { name: "data" type: "Input" top: "data" top: "label"
          input_param { shape { dim: 16 dim: 1 dim: 28 dim: 28 } shape { dim: 16 } } })"),
                  context);
    test::fill_inputs(solver.net());
    ASSERT_TRUE(solver.step(kWarm));
    const Counting counter(context);
    solver.step(kCounted);
    EXPECT_EQ(counter.ours(), "") << "engine '" << engine << "'";
  }
}

TEST(SteadyState, TrainingADetectorTakesNoMemoryAndNoLock) {
  if (!CREMA_CAN_COUNT)
    GTEST_SKIP()
        << "needs a build without sanitizers, which have their own malloc: set no CREMA_SANITIZE";
  for (const char* more : {"", "mining_type: HARD_EXAMPLE nms_param { nms_threshold: 0.6 }",
                           "use_prior_for_matching: false conf_loss_type: LOGISTIC"}) {
    Context context({.threads = 2});
    SolverParameter param;
    parse_text_proto(text(R"(base_lr: 0.001 lr_policy: 'fixed' net_param {
  layer { name: "in" type: "Input" top: "data" top: "truth"
          input_param { shape { dim: 4 dim: 3 dim: 32 dim: 32 } shape { dim: 1 dim: 1 dim: 3 dim: 8 } } }
  layer { name: "loc" type: "Convolution" bottom: "data" top: "loc"
          convolution_param { num_output: 16 kernel_size: 3 stride: 2 weight_filler { type: "xavier" } } }
  layer { name: "conf" type: "Convolution" bottom: "data" top: "conf"
          convolution_param { num_output: 12 kernel_size: 3 stride: 2 weight_filler { type: "xavier" } } }
  layer { name: "loc_perm" type: "Permute" bottom: "loc" top: "loc_perm"
          permute_param { order: 0 order: 2 order: 3 order: 1 } }
  layer { name: "conf_perm" type: "Permute" bottom: "conf" top: "conf_perm"
          permute_param { order: 0 order: 2 order: 3 order: 1 } }
  layer { name: "loc_flat" type: "Flatten" bottom: "loc_perm" top: "loc_flat" }
  layer { name: "conf_flat" type: "Flatten" bottom: "conf_perm" top: "conf_flat" }
  layer { name: "priors" type: "PriorBox" bottom: "loc" bottom: "data" top: "priors"
          prior_box_param { min_size: 8 max_size: 16 aspect_ratio: 2 } }
  layer { name: "loss" type: "MultiBoxLoss" bottom: "loc_flat" bottom: "conf_flat" bottom: "priors"
          bottom: "truth" top: "loss" multibox_loss_param { num_classes: 3 )",
                          more, "} } }"),
                     "solver.prototxt", param);
    Solver solver(param, context);
    test::fill_inputs(solver.net());
    const std::vector<float> boxes = {0, 1, 0, 0.2F, 0.2F, 0.5F, 0.5F, 0,  //
                                      0, 2, 0, 0.4F, 0.5F, 0.7F, 0.7F, 0,  //
                                      3, 2, 0, 0.1F, 0.5F, 0.4F, 0.9F, 0};
    std::copy(boxes.begin(), boxes.end(), solver.net().input("truth").overwrite<float>());
    ASSERT_TRUE(solver.step(kWarm));
    const Counting counter(context);
    solver.step(kCounted);
    EXPECT_EQ(counter.ours(), "") << more;
  }
}

TEST(SteadyState, DetectingTakesNoMemoryAndNoLock) {
  if (!CREMA_CAN_COUNT)
    GTEST_SKIP()
        << "needs a build without sanitizers, which have their own malloc: set no CREMA_SANITIZE";
  for (const char* more : {"", "keep_top_k: 20 nms_param { top_k: 50 }"}) {
    Context context({.threads = 2});
    Net net(test::net_param(text(R"(
  layer { name: "loc" type: "Input" top: "loc" input_param { shape { dim: 2 dim: 4000 } } }
  layer { name: "conf" type: "Input" top: "conf" input_param { shape { dim: 2 dim: 5000 } } }
  layer { name: "priors" type: "Input" top: "priors" input_param { shape { dim: 1 dim: 2 dim: 4000 } } }
  layer { name: "truth" type: "Input" top: "truth" input_param { shape { dim: 1 dim: 1 dim: 1 dim: 8 } } }
  layer { name: "out" type: "DetectionOutput" bottom: "loc" bottom: "conf" bottom: "priors"
          top: "out" detection_output_param { num_classes: 5 )",
                                 more, R"( } }
  layer { name: "eval" type: "DetectionEvaluate" bottom: "out" bottom: "truth" top: "eval"
          detection_evaluate_param { num_classes: 5 } })")),
            context, {.phase = Phase::test});
    test::fill_inputs(net, 0, 1);
    const std::vector<float> box = {0, 1, 0, 0.2F, 0.2F, 0.5F, 0.5F, 0};
    std::copy(box.begin(), box.end(), net.input("truth").overwrite<float>());
    for (int i = 0; i < kWarm; ++i) net.forward();
    const Counting counter(context);
    for (int i = 0; i < kCounted; ++i) net.forward();
    EXPECT_EQ(counter.ours(), "") << more;
  }
}

/// A layer over inputs of the given names and shapes. Those named "label" hold classes, "cont"
/// indicators of sequences, and "image" colours.
struct Room {
  const char* name;
  std::vector<std::pair<std::string, std::string>> inputs;
  std::string layer;
};

TEST(SteadyState, LayersTakeNoMemoryAndNoLock) {
  if (!CREMA_CAN_COUNT)
    GTEST_SKIP()
        << "needs a build without sanitizers, which have their own malloc: set no CREMA_SANITIZE";
  const char* const sequences = "dim: 9 dim: 4 dim: 5";
  const char* const steps = "dim: 9 dim: 4";
  const char* const image = "dim: 2 dim: 3 dim: 12 dim: 14";
  const char* const weights = "weight_filler { type: 'xavier' }";
  const std::vector<Room> rooms = {
      {"Attention",
       {{"q", "dim: 2 dim: 40 dim: 8"}},
       "type: 'Attention' loss_weight: 1 bottom: 'q' bottom: 'q' "
       "bottom: 'q' attention_param { num_heads: 2 }"},
      {"CRFLoss",
       {{"x", sequences}, {"label", steps}},
       "type: 'CRFLoss' crf_loss_param { "
       "boundary_term: true }"},
      {"CRFLoss with best paths",
       {{"x", sequences}, {"label", steps}, {"cont", steps}},
       "type: 'CRFLoss' top: 'loss'"},
      {"CRFDecoder", {{"x", sequences}, {"cont", steps}}, "type: 'CRFDecoder'"},
      {"CTCLoss", {{"x", sequences}, {"label", "dim: 4 dim: 3"}}, "type: 'CTCLoss'"},
      {"CTCGreedyDecoder", {{"x", sequences}}, "type: 'CTCGreedyDecoder'"},
      {"GRU",
       {{"x", sequences}, {"cont", steps}},
       text("type: 'GRU' loss_weight: 1 recurrent_param { num_output: 6 ", weights, " }")},
      {"GRU of the state before",
       {{"x", sequences}, {"cont", steps}},
       text("type: 'GRU' loss_weight: 1 recurrent_param { num_output: 6 bidirectional: true ",
            "linear_before_reset: false ", weights, " }")},
      {"LSTM",
       {{"x", sequences}, {"cont", steps}},
       text("type: 'LSTM' loss_weight: 1 recurrent_param { num_output: 6 ", weights, " }")},
      {"LSTMUnit",
       {{"c", "dim: 1 dim: 4 dim: 5"}, {"x", "dim: 1 dim: 4 dim: 20"}, {"cont", "dim: 1 dim: 4"}},
       "type: 'LSTMUnit' top: 'h' loss_weight: 1 loss_weight: 1"},
      {"LocallyConnected",
       {{"x", image}},
       text("type: 'LocallyConnected' loss_weight: 1 local_param { num_output: 4 kernel_size: 3 ",
            weights, " }")},
      {"MultiStageMeanfield",
       {{"x", image}, {"state", image}, {"image", image}},
       "type: 'MultiStageMeanfield' loss_weight: 1 multi_stage_meanfield_param { num_iterations: 2 "
       "theta_alpha: 4 "
       "theta_beta: 2 theta_gamma: 2 }"},
      {"SpatialTransformer",
       {{"x", image}, {"theta", "dim: 2 dim: 6"}},
       "type: 'SpatialTransformer' loss_weight: 1"},
  };
  for (const Room& room : rooms) {
    SCOPED_TRACE(room.name);
    std::string prototxt = "force_backward: true ", bottoms;
    for (const auto& [name, shape] : room.inputs) {
      prototxt += text("layer { name: '", name, "' type: 'Input' top: '", name,
                       "' input_param { shape { ", shape, " } } } ");
      if (room.layer.find("bottom") == std::string::npos) bottoms += text("bottom: '", name, "' ");
    }
    prototxt += text("layer { name: 'y' ", room.layer, " ", bottoms, "top: 'y' } ");
    Context context({.threads = 2});
    Net net(test::net_param(prototxt), context);
    test::fill_inputs(net);
    const auto input = [&](std::string_view name) -> Tensor* {
      const auto& names = net.inputs();
      const auto at = std::ranges::find(names, name);
      return at == names.end() ? nullptr : &net.input(*at);
    };
    Tensor* const labels = input("label");
    const std::vector<float> filled =
        labels ? std::vector<float>(labels->read<float>(), labels->read<float>() + labels->count())
               : std::vector<float>();
    // Two kinds of batches by turns: sequences are one or many, labels and colours several or one.
    const auto iterate = [&](int i) {
      const bool first = i % 2 == 0;
      if (Tensor* const cont = input("cont")) {
        cont->fill(1);
        for (int64_t k = 0; !first && k < cont->count(); k += 3) cont->change<float>()[k] = 0;
      }
      if (labels && first) std::ranges::copy(filled, labels->overwrite<float>());
      if (labels && !first) labels->fill(0);
      if (Tensor* const colours = input("image")) {
        for (int64_t k = 0; k < colours->count(); ++k)
          colours->overwrite<float>()[k] = first ? 0.0F : static_cast<float>(k % 19);
      }
      net.clear_gradients();
      net.forward();
      net.backward();
    };
    for (int i = 0; i < kWarm; ++i) iterate(i);
    const Counting counter(context);
    for (int i = 0; i < kCounted; ++i) iterate(i);
    EXPECT_EQ(counter.ours(), "");
  }
}

TEST(SteadyState, TrainingFromADatabaseTakesNoMemory) {
  if (!CREMA_CAN_COUNT)
    GTEST_SKIP()
        << "needs a build without sanitizers, which have their own malloc: set no CREMA_SANITIZE";
  const test::ScratchFolder folder;
  test::write_counting_database(folder / "db", 8, 1, 28, 28);
  Context context({.threads = 2});
  Solver solver(
      lenet(text("layer { name: 'data' type: 'Data' top: 'data' top: 'label' data_param { ",
                 "source: '", folder / "db", "' backend: LMDB batch_size: 8 } ",
                 "transform_param { scale: 0.004 } }")),
      context);
  ASSERT_TRUE(solver.step(kWarm));
  const Counting counter(context);
  solver.step(kCounted);
  EXPECT_EQ(counter.ours(false), "") << "locks hand the batch over from the loader's threads";
}

TEST(SteadyState, IsCounted) {
  if (!CREMA_CAN_COUNT)
    GTEST_SKIP()
        << "needs a build without sanitizers, which have their own malloc: set no CREMA_SANITIZE";
  const Context context({.threads = 2});
  const Counting counter(context);
  delete[] new volatile char[100];
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&mutex);
  pthread_mutex_unlock(&mutex);
  EXPECT_NE(counter.ours(), "");
}

}  // namespace
}  // namespace crema
