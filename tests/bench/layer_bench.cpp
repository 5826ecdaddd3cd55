// Milliseconds of one layer's passes: every engine and format of the rooms that are bound by memory
// or by one function (BatchNorm, Scale, LRN, Softmax, losses, Eltwise, ...). Behind each time
// stands its ratio to the time in which the layer's data are moved: a copy that reads and writes as
// many bytes as bottoms, tops and parameters have together; in backward, as their diffs have and
// what it reads of their data.
//   build/release/tests/layer_bench [--threads N] [--runs N] [--simd baseline|sse4|avx2|avx512]
//   [WORD]...
//
// Problems whose name contains one of the words are measured, or all of them. With one
// thread the median of the runs' CPU time counts, with more the least elapsed time: other programs
// disturb these least.
#include <omp.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <optional>
#include <string>
#include <vector>

#include "core/parallel.hpp"
#include "core/simd.hpp"
#include "support/layer_test.hpp"

namespace crema::test {
namespace {

struct Problem {
  std::string name;
  LayerCase layer_case;
};

/// The 8,732 boxes of SSD300, with the proportions of its six maps.
Input ssd300_priors() {
  struct Map {
    int side, boxes;
    double size;
  };
  std::vector<double> values;
  for (const Map& map : {Map{38, 4, 0.1}, Map{19, 6, 0.2}, Map{10, 6, 0.37}, Map{5, 6, 0.54},
                         Map{3, 4, 0.71}, Map{1, 4, 0.88}}) {
    for (int i = 0; i < map.side * map.side * map.boxes; ++i) {
      const int cell = i / map.boxes;
      const double x = (cell % map.side + 0.5) / map.side, y = (cell / map.side + 0.5) / map.side;
      const double wide = map.size / 2 * (1 + 0.2 * (i % map.boxes)),
                   high = map.size * map.size / 4 / wide;
      values.insert(values.end(), {x - wide, y - high, x + wide, y + high});
    }
  }
  const auto boxes = static_cast<int64_t>(values.size()) / 4;
  for (int64_t i = 0; i < boxes; ++i) values.insert(values.end(), {0.1, 0.1, 0.2, 0.2});
  return given({1, 2, 4 * boxes}, values);
}

/// Boxes of all sizes, as many `each` image.
Input true_boxes(int64_t images, int64_t each) {
  std::vector<double> values;
  for (int64_t i = 0; i < images * each; ++i) {
    const auto part = [&](int64_t by) { return static_cast<double>(i * by % 97) / 97; };
    const double side = 0.05 + 0.5 * part(31) * part(31), x = part(17) * (1 - side),
                 y = part(53) * (1 - side);
    values.insert(values.end(), {static_cast<double>(i / each), static_cast<double>(1 + i % 20), 0,
                                 x, y, x + side, y + side, 0});
  }
  return given({1, 1, images * each, 8}, values);
}

std::vector<Problem> problems() {
  std::vector<Problem> all;
  auto add_case = [&](const std::string& name, const std::string& layer,
                      const std::vector<Input>& bottoms, const std::vector<std::string>& tail = {},
                      int tops = 1) {
    all.push_back(
        {text(name, " ", bottoms[0].shape.str()),
         {.layer = text("layer { ", layer, " }"), .bottoms = bottoms, .tops = tops, .tail = tail}});
  };
  auto add = [&](const std::string& name, const std::string& layer, const Shape& shape,
                 size_t bottoms = 1, const std::vector<std::string>& tail = {}) {
    add_case(name, layer, std::vector<Input>(bottoms, uniform(shape, -2, 2)), tail);
  };
  const std::string relu = "layer { type: 'ReLU' }";
  const std::string norm = "type: 'BatchNorm' batch_norm_param { scale_bias: true relu: true }";
  const std::string scale = "type: 'Scale' scale_param { bias_term: true }";
  for (const Shape& shape : {Shape{8, 64, 112, 112}, Shape{8, 256, 14, 14}, Shape{8, 512, 7, 7}}) {
    add("BatchNorm", norm, shape);
    add("Scale", scale, shape);
  }
  const std::string plane = "norm_region: WITHIN_CHANNEL";
  add("LRN", "type: 'LRN' lrn_param { alpha: 0.5 }", {16, 64, 56, 56});
  add("LRN beta 0.6", "type: 'LRN' lrn_param { alpha: 0.5 beta: 0.6 }", {16, 64, 56, 56});
  add("LRN within", text("type: 'LRN' lrn_param { alpha: 0.5 ", plane, " }"), {16, 64, 28, 28});
  for (const Shape& shape : {Shape{64, 1000}, Shape{64, 10}, Shape{4, 21, 64, 64}}) {
    add("Softmax", "type: 'Softmax'", shape);
    std::vector<int64_t> positions = shape.dims();
    positions[1] = 1;
    add_case("SoftmaxWithLoss", "type: 'SoftmaxWithLoss'",
             {uniform(shape, -2, 2), labels(Shape(positions), shape[1])});
    add_case(
        "InfogainLoss", "type: 'InfogainLoss'",
        {uniform(shape, -2, 2), labels(Shape(positions), shape[1]), uniform({shape[1], shape[1]})});
  }
  const Input priors = ssd300_priors();
  const int64_t boxes = priors.shape[2] / 4;
  const auto add_multibox = [&](const std::string& settings, int64_t each) {
    add_case(text("MultiBoxLoss ", each, " ", settings),
             text("type: 'MultiBoxLoss' multibox_loss_param { num_classes: 21 code_type: "
                  "CENTER_SIZE ",
                  settings, " }"),
             {uniform({8, 4 * boxes}, -1, 1), uniform({8, 21 * boxes}, -3, 3), priors,
              true_boxes(8, each)});
  };
  add_multibox("", 3);
  add_multibox("", 8);
  for (const char* settings :
       {"", "mining_type: NONE", "conf_loss_type: LOGISTIC", "use_prior_for_matching: false",
        "mining_type: HARD_EXAMPLE nms_param { nms_threshold: 0.7 }"}) {
    add_multibox(settings, 20);
  }
  add_case("Proposal", "type: 'Proposal'",
           {uniform({1, 18, 38, 63}, 0, 1), uniform({1, 36, 38, 63}, -0.5, 0.5),
            given({1, 3}, {600, 1000, 1})});
  for (const char* norm_of_loss : {"L1", "L2"}) {
    add_case(text("HingeLoss ", norm_of_loss),
             text("type: 'HingeLoss' hinge_loss_param { norm: ", norm_of_loss, " }"),
             {uniform({64, 1000}, -2, 2), labels({64}, 1000)});
  }
  add_case("ContrastiveLoss", "type: 'ContrastiveLoss'",
           {uniform({64, 1000}), uniform({64, 1000}), labels({64}, 2)});
  const std::string xavier = "weight_filler { type: 'xavier' }";
  for (const char* outputs : {"1000", "100"}) {
    add(text("InnerProduct ", outputs),
        text("type: 'InnerProduct' inner_product_param { num_output: ", outputs, " ", xavier, " }"),
        {64, 512}, 1, {relu});
  }
  add("PReLU", "type: 'PReLU'", {8, 64, 112, 112});
  add("PReLU", "type: 'PReLU'", {8, 512, 7, 7});
  add("Pooling MAX", "type: 'Pooling' pooling_param { kernel_size: 3 stride: 2 }", {4, 64, 56, 56});
  add("Pooling AVE", "type: 'Pooling' pooling_param { pool: AVE kernel_size: 3 stride: 2 }",
      {4, 64, 56, 56});
  for (const char* method : {"MAX", "AVE"}) {
    add(text("Pooling of volumes ", method),
        text("type: 'Pooling' pooling_param { pool: ", method, " kernel_size: 2 stride: 2 }"),
        {1, 64, 16, 56, 56});
    add(text("SPP ", method),
        text("type: 'SPP' spp_param { pyramid_height: 3 pool: ", method, " }"), {8, 256, 13, 13});
  }
  add("Pooling with a mask",
      "type: 'Pooling' top: 'y' top: 'mask' pooling_param { kernel_size: 2 stride: 2 }",
      {4, 64, 56, 56});
  add("MVN", "type: 'MVN'", {8, 64, 112, 112});
  add("MVN across", "type: 'MVN' mvn_param { across_channels: true }", {8, 3, 224, 224});
  add("Im2col", "type: 'Im2col' convolution_param { kernel_size: 3 pad: 1 }", {8, 64, 28, 28});
  add("EuclideanLoss", "type: 'EuclideanLoss'", {64, 4096}, 2);
  add("SigmoidCrossEntropyLoss", "type: 'SigmoidCrossEntropyLoss'", {64, 4096}, 2);
  for (const std::string type :
       {"AbsVal", "BNLL", "Bias", "Clip", "ELU", "Exp", "Log", "Power", "ReLU", "Sigmoid", "Swish",
        "TanH", "Threshold", "Flatten", "Silence", "Split"}) {
    const bool clips = type == "Clip";
    add(type, text("type: '", type, "'", clips ? " clip_param { min: -1 max: 1 }" : ""),
        {8, 256, 28, 28});
  }
  add("ArgMax", "type: 'ArgMax'", {64, 1000});
  add("ArgMax top 5", "type: 'ArgMax' argmax_param { top_k: 5 }", {64, 1000});
  add("ArgMax axis 1", "type: 'ArgMax' argmax_param { axis: 1 }", {4, 21, 64, 64});
  for (const char* top_k : {"1", "5"}) {
    add_case(text("Accuracy top ", top_k),
             text("type: 'Accuracy' accuracy_param { top_k: ", top_k, " }"),
             {uniform({64, 1000}), labels({64}, 1000)});
  }
  add_case("Accuracy of positions", "type: 'Accuracy'",
           {uniform({4, 21, 64, 64}), labels({4, 1, 64, 64}, 21)});
  add_case("MultinomialLogisticLoss", "type: 'MultinomialLogisticLoss'",
           {uniform({64, 1000}, 0.001, 1), labels({64}, 1000)});
  add_case("BatchReindex", "type: 'BatchReindex'", {uniform({64, 4096}), labels({64}, 64)});
  add_case("Filter", "type: 'Filter'", {uniform({64, 4096}), labels({64}, 2)});
  add_case("Crop", "type: 'Crop' crop_param { offset: 3 }",
           {uniform({4, 64, 62, 62}), uniform({4, 64, 56, 56})});
  add("Concat", "type: 'Concat'", {8, 128, 28, 28}, 2);
  add("Slice", "type: 'Slice' top: 'y' top: 'z'", {8, 256, 28, 28});
  add("Tile", "type: 'Tile' tile_param { tiles: 4 }", {8, 64, 28, 28});
  const Shape tokens{8, 197, 768};
  add_case("Arithmetic of equal shapes", "type: 'Arithmetic'", {uniform(tokens), uniform(tokens)});
  add_case("Arithmetic by a row", "type: 'Arithmetic' arithmetic_param { operation: MUL }",
           {uniform(tokens), uniform({768})});
  add_case("Arithmetic by a number", "type: 'Arithmetic' arithmetic_param { operation: MUL }",
           {uniform(tokens), uniform({})});
  add_case("Arithmetic by channels", "type: 'Arithmetic' arithmetic_param { operation: MUL }",
           {uniform({8, 256, 28, 28}), uniform({256, 1, 1})});
  add_case("Arithmetic POW", "type: 'Arithmetic' arithmetic_param { operation: POW }",
           {uniform({8, 256, 28, 28}, 0.5, 2), uniform({})});
  add_case("Where", "type: 'Where'",
           {labels({8, 1, 197, 197}, 2), uniform({8, 12, 197, 197}), uniform({})});
  add("Expand", "type: 'Expand' expand_param { dim: 8 dim: -1 dim: -1 }", {1, 197, 768});
  add_case("Gather", "type: 'Gather' gather_param { axis: 1 }",
           {uniform({8, 197, 768}), labels({64}, 197)});
  add("Pad", "type: 'Pad' pad_param { begin: 3 begin: 3 end: 3 end: 3 mode: REFLECT }",
      {8, 64, 28, 28});
  add("StridedSlice",
      "type: 'StridedSlice' strided_slice_param { axis: 2 axis: 3 begin: 0 begin: 1 end: 99 end: "
      "99 step: 2 step: 2 }",
      {8, 64, 56, 56});
  add("CumSum", "type: 'CumSum'", {64, 4096});
  add("TopK", "type: 'TopK' topk_param { k: 5 }", {64, 1000});
  add("RMSNorm", "type: 'RMSNorm'", {8, 197, 768});
  add_case("GridSample", "type: 'GridSample'", {uniform({4, 32, 56, 56}), uniform({4, 56, 56, 2})});
  add("Reduce", "type: 'Reduce' reduce_param { axis: 2 axis: 3 }", {8, 256, 28, 28});
  add("Reduce MAX", "type: 'Reduce' reduce_param { axis: 1 operation: MAX }", {8, 256, 28, 28});
  add("Reduce LOG_SUM_EXP", "type: 'Reduce' reduce_param { axis: 1 operation: LOG_SUM_EXP }",
      {64, 1000});
  add("Reduction", "type: 'Reduction' reduction_param { axis: 1 }", {64, 4096});
  add("Reduction SUMSQ", "type: 'Reduction' reduction_param { axis: 1 operation: SUMSQ }",
      {64, 4096});
  add_case("Embed",
           text("type: 'Embed' embed_param { input_dim: 1000 num_output: 512 ", xavier, " }"),
           {labels({32, 20}, 1000)});
  add_case("LSTMUnit", "type: 'LSTMUnit'",
           {uniform({1, 64, 512}), uniform({1, 64, 2048}), labels({1, 64}, 2)}, {}, 2);
  for (const char* causal : {"false", "true"}) {
    add(text("Attention causal ", causal),
        text("type: 'Attention' attention_param { num_heads: 8 causal: ", causal, " }"),
        {1, 1024, 512}, 3);
  }
  for (const Shape& shape : {Shape{8, 32, 64, 64}, Shape{64, 1, 60, 60}}) {
    add_case("SpatialTransformer", "type: 'SpatialTransformer'",
             {uniform(shape), uniform({shape[0], 6})});
  }
  add_case("SpatialTransformer, glimpse",
           "type: 'SpatialTransformer' st_param { output_H: 28 output_W: 28 }",
           {uniform({1, 3, 1024, 1024}), uniform({1, 6})});
  for (const Shape& shape : {Shape{4, 64, 56, 56}, Shape{4, 512, 14, 14}}) {
    add_case("DeformableConvolution",
             text("type: 'DeformableConvolution' deformable_convolution_param { num_output: ",
                  shape[1], " kernel_size: 3 pad: 1 ", xavier, " }"),
             {uniform(shape), uniform({shape[0], 18, shape[2], shape[3]}, -2, 2)});
  }
  for (const Shape& shape : {Shape{8, 16, 63, 63}, Shape{64, 20, 12, 12}}) {
    add("LocallyConnected",
        text("type: 'LocallyConnected' local_param { num_output: 16 kernel_size: 5 ", xavier, " }"),
        shape);
  }
  add("Dropout", "type: 'Dropout'", {64, 4096});
  add("Dropout", "type: 'Dropout'", {8, 256, 28, 28});
  for (const std::string operation : {"SUM", "PROD", "MAX"}) {
    const std::string layer = text("type: 'Eltwise' eltwise_param { operation: ", operation, " }");
    add(text("Eltwise ", operation), layer, {8, 256, 28, 28}, 2,
        operation == "SUM" ? std::vector{relu} : std::vector<std::string>());
    add(text("Eltwise ", operation, " of 3"), layer, {8, 64, 14, 14}, 3);
  }
  return all;
}

double now(bool elapsed) {
  timespec time{};
  clock_gettime(elapsed ? CLOCK_MONOTONIC : CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

template <class Body>
double usual_ms(int runs, bool elapsed, const Body& body) {
  std::vector<double> times;
  for (int i = 0; i < runs + 2; ++i) {
    const double begin = now(elapsed);
    body();
    if (i >= 2) times.push_back(1e3 * (now(elapsed) - begin));
  }
  if (elapsed) return *std::min_element(times.begin(), times.end());
  std::nth_element(times.begin(), times.begin() + runs / 2, times.end());
  return times[static_cast<size_t>(runs / 2)];
}

/// Milliseconds in which `bytes` are moved, half of them read and half of them written.
double move_ms(size_t bytes, int runs, bool elapsed) {
  const std::vector<float> from(bytes / 2 / sizeof(float) + 1, 1);
  std::vector<float> to(from.size());
  return usual_ms(runs, elapsed, [&] {
    parallel_for(static_cast<int64_t>(from.size()), 1 << 14, [&](int64_t begin, int64_t end) {
      std::copy(from.begin() + begin, from.begin() + end, to.begin() + begin);
    });
  });
}

void measure(const Problem& problem, int runs, bool elapsed) {
  for (int option = 0, options = 1; option < options; ++option) {
    LayerRun run(problem.layer_case, {.engine = "", .option = option});
    options = static_cast<int>(run.options().size());
    run.forward();
    std::vector<Blob*> bottoms, tops;
    std::vector<bool> propagate;
    for (int i = 0; i < run.num_bottoms(); ++i) {
      bottoms.push_back(&run.bottom_blob(i));
      propagate.push_back(run.layer().can_propagate(static_cast<size_t>(i)));
    }
    for (int i = 0; i < run.num_tops(); ++i) tops.push_back(&run.top_blob(i));
    const double forward = usual_ms(runs, elapsed, [&] { run.kernel().forward(bottoms, tops); });
    size_t blobs = 0, params = 0;
    for (const auto* all : {&bottoms, &tops}) {
      for (const Blob* blob : *all) blobs += blob->data.bytes();
    }
    for (const auto& parameter : run.layer().params()) params += parameter->data.bytes();
    const double moved = move_ms(blobs + params, runs, elapsed);
    size_t read = params;
    const BackwardReads reads = run.kernel().backward_reads();
    for (size_t i = 0; i < bottoms.size(); ++i) {
      if (reads.bottom_data[i]) read += bottoms[i]->data.bytes();
    }
    for (size_t i = 0; i < tops.size(); ++i) {
      if (reads.top_data[i]) read += tops[i]->data.bytes();
    }
    std::printf(
        "%-28s %-10s %-14s %9.3f %6.2f", problem.name.c_str(), std::string(run.engine()).c_str(),
        std::string(to_string(run.bottom_blob(0).data.format())).c_str(), forward, forward / moved);
    if (std::ranges::find(propagate, true) != propagate.end()) {
      run.backward();  // from now on, what backward does not read is NaN
      const double backward = usual_ms(runs, elapsed, [&] {
        run.clear_gradients();
        run.kernel().backward(tops, propagate, bottoms);
      });
      std::printf(" %9.3f %6.2f", backward,
                  backward / move_ms(blobs + params + read, runs, elapsed));
    }
    std::printf("\n");
    std::fflush(stdout);
  }
}

int bench(int argc, char** argv) {
  int threads = 1, runs = 15;
  std::optional<SimdLimit> limit;
  std::vector<std::string> words;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const std::string value = i + 1 < argc ? argv[i + 1] : "";
    if (argument == "--threads") {
      threads = std::stoi(value), ++i;
    } else if (argument == "--runs") {
      runs = std::stoi(value), ++i;
    } else if (argument == "--simd") {
      limit.emplace(simd_level_of(value));
      ++i;
    } else {
      words.push_back(argument);
    }
  }
  omp_set_num_threads(threads);
  std::printf("%s, %d threads, ms: %s\n%-28s %-10s %-14s %9s %6s %9s %6s\n",
              std::string(to_string(simd_level())).c_str(), threads,
              threads > 1 ? "least elapsed" : "median CPU", "problem", "engine", "format",
              "forward", "moves", "backward", "moves");
  for (const Problem& problem : problems()) {
    const bool wanted = words.empty() || std::ranges::any_of(words, [&](const std::string& word) {
                          return problem.name.find(word) != std::string::npos;
                        });
    if (wanted) measure(problem, runs, threads > 1);
  }
  return 0;
}

}  // namespace
}  // namespace crema::test

int main(int argc, char** argv) { return crema::test::bench(argc, argv); }
