// Layers whose tops get their shapes in forward, and the layers behind them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "crema/registry.hpp"
#include "support/expect_error.hpp"
#include "support/net_test.hpp"

namespace crema {
namespace {

using test::fill_inputs;
using test::gradients_of;
using test::net_param;

/// Keeps the first rows of its bottom: as many as its first value says.
class FirstRows : public Layer {
 public:
  using Layer::Layer;
  TopShapes top_shapes() const override { return shapes_; }
  void reshape(Blobs bottom, Blobs top) override { top[0]->reshape(bottom[0]->shape()); }
  void forward_cpu(Blobs bottom, Blobs top) override {
    const auto rows = static_cast<int64_t>(bottom[0]->data.at(0));
    Shape shape = bottom[0]->shape();
    shape.set(0, rows);
    top[0]->reshape(shape);
    for (int64_t i = 0; i < std::min(shape.count(), bottom[0]->count()); ++i) {
      top[0]->data.change<float>()[i] = bottom[0]->data.read<float>()[i];
    }
  }
  void backward_cpu(Blobs top, const std::vector<bool>&, Blobs bottom) override {
    bottom[0]->diff.fill(0);
    for (int64_t i = 0; i < top[0]->count(); ++i) {
      bottom[0]->diff.change<float>()[i] = top[0]->diff.read<float>()[i];
    }
  }
  static inline TopShapes shapes_ = TopShapes::from_values;
};

class LateShapes : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!Registry::instance().has("TestFirstRows")) {
      Registry::instance().add<FirstRows>("TestFirstRows");
    }
  }
  void SetUp() override { FirstRows::shapes_ = TopShapes::from_values; }
  static NetParameter net() {
    return net_param(R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 11 dim: 4 } } }
layer { name: "rows" type: "TestFirstRows" bottom: "x" top: "r" }
layer { name: "ip" type: "InnerProduct" bottom: "r" top: "y"
        inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "tanh" type: "TanH" bottom: "y" top: "z" })");
  }
};

TEST_F(LateShapes, ReadersFollow) {
  Context context;
  Net whole(net(), context, {.phase = Phase::test, .keep = {"y"}});
  for (const double rows : {11, 2, 7, 11}) {
    SCOPED_TRACE(rows);
    fill_inputs(whole);
    whole.input("x").change<float>()[0] = static_cast<float>(rows);
    whole.forward();
    const Tensor z = whole.output("z");
    EXPECT_EQ(z.shape(), (Shape{static_cast<int64_t>(rows), 3}));
    EXPECT_EQ(whole.blob("y").shape(), z.shape());
    for (int64_t i = 0; i < z.count(); ++i) {
      EXPECT_NEAR(z.at(i), std::tanh(whole.blob("y").data.at(i)), 1e-6);
    }
  }
}

// A program that was put aside went on as if its layers were still prepared for the other's rows.
TEST_F(LateShapes, ReadersFollowInProgramsThatWereKept) {
  Context context;
  Net several(net(), context, {.phase = Phase::test});
  for (const int64_t bound : {11, 5, 11, 5}) {
    for (const int64_t rows : {int64_t{2}, bound}) {
      several.reshape_input("x", {bound, 4});
      fill_inputs(several);
      several.input("x").change<float>()[0] = static_cast<float>(rows);
      several.forward();
      EXPECT_EQ(several.output("z").shape(), (Shape{rows, 3})) << bound;
    }
  }
}

// Detectors find nothing in some images.
TEST_F(LateShapes, MayBeEmpty) {
  for (const char* engine : {"", "reference"}) {
    SCOPED_TRACE(engine);
    Context context({.engine = engine});
    Net found(net_param(R"(
layer { name: "x" type: "Input" top: "x"
        input_param { shape { dim: 3 dim: 16 dim: 6 dim: 6 } } }
layer { name: "rows" type: "TestFirstRows" bottom: "x" top: "r" }
layer { name: "conv" type: "Convolution" bottom: "r" top: "c"
        convolution_param { num_output: 16 kernel_size: 3 weight_filler { type: "xavier" } } }
layer { name: "relu" type: "ReLU" bottom: "c" top: "c" }
layer { name: "pool" type: "Pooling" bottom: "c" top: "p" pooling_param { kernel_size: 2 } }
layer { name: "ip" type: "InnerProduct" bottom: "p" top: "y" loss_weight: 1
        inner_product_param { num_output: 3 weight_filler { type: "xavier" } } })"),
              context);
    for (const float rows : {2, 0, 3, 0}) {
      fill_inputs(found);
      found.input("x").change<float>()[0] = rows;
      found.clear_gradients();
      found.forward();
      EXPECT_EQ(found.output("y").shape(), (Shape{static_cast<int64_t>(rows), 3}));
      found.backward();
      double sum = 0;
      for (const double value : gradients_of(found)) sum += std::abs(value);
      EXPECT_EQ(sum == 0, rows == 0) << rows;
    }
  }
}

// The gradients of two readers of a late value are added up in memory of their own.
TEST_F(LateShapes, GradientsOfSeveralReadersFollow) {
  const std::string readers = R"(
layer { name: "a" type: "InnerProduct" bottom: "r" top: "y"
        inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "b" type: "InnerProduct" bottom: "r" top: "z"
        inner_product_param { num_output: 2 weight_filler { type: "xavier" } } }
layer { name: "loss_y" type: "TanH" bottom: "y" top: "ly" loss_weight: 1 }
layer { name: "loss_z" type: "TanH" bottom: "z" top: "lz" loss_weight: 1 })";
  Context context;
  Net late(net_param("force_backward: true "
                     R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 11 dim: 4 } } }
layer { name: "rows" type: "TestFirstRows" bottom: "x" top: "r" })" +
                     readers),
           context);
  for (const int64_t rows : {2, 7, 11, 3}) {
    SCOPED_TRACE(rows);
    Net direct(net_param(text("force_backward: true layer { name: 'r' type: 'Input' top: 'r' "
                              "input_param { shape { dim: ",
                              rows, " dim: 4 } } }", readers)),
               context);
    fill_inputs(late);
    late.input("x").change<float>()[0] = static_cast<float>(rows);
    std::copy_n(late.input("x").read<float>(), rows * 4, direct.input("r").change<float>());
    for (Net* each : {&late, &direct}) {
      each->clear_gradients();
      each->forward();
      each->backward();
    }
    const auto expected = gradients_of(direct), actual = gradients_of(late);
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-5);
    const Tensor& dx = late.blob("x").diff;
    for (int64_t i = 0; i < dx.count(); ++i) {
      EXPECT_NEAR(dx.at(i), i < rows * 4 ? direct.blob("r").diff.at(i) : 0, 1e-5) << i;
    }
  }
}

TEST_F(LateShapes, BeyondTheBoundAreErrors) {
  Context context;
  Net small(net(), context, {.phase = Phase::test});
  small.input("x").change<float>()[0] = 12;
  expect_error([&] { small.forward(); },
               {"layer 'rows' (TestFirstRows)", "'r'", "12x4", "bound 11x4"});
  small.input("x").change<float>()[0] = 3;
  small.forward();
  EXPECT_EQ(small.output("z").shape(), (Shape{3, 3}));
}

/// Its bottom as many times as the bottom's first value says; reshape() guesses once.
class Repeats : public Layer {
 public:
  using Layer::Layer;
  TopShapes top_shapes() const override { return TopShapes::from_values; }
  bool has_unbounded_tops() const override { return true; }
  void reshape(Blobs bottom, Blobs top) override { top[0]->reshape(bottom[0]->shape()); }
  void forward_cpu(Blobs bottom, Blobs top) override {
    times_ = static_cast<int64_t>(bottom[0]->data.at(0));
    Shape shape = bottom[0]->shape();
    shape.set(0, times_ * shape[0]);
    top[0]->reshape(shape);
    const float* const from = bottom[0]->data.read<float>();
    float* to = top[0]->data.change<float>();
    for (int64_t i = 0; i < times_; ++i) to = std::copy_n(from, bottom[0]->count(), to);
  }
  void backward_cpu(Blobs top, const std::vector<bool>&, Blobs bottom) override {
    float* const sum = bottom[0]->diff.overwrite<float>();
    std::fill_n(sum, bottom[0]->count(), 0.F);
    const float* from = top[0]->diff.read<float>();
    for (int64_t i = 0; i < times_ * bottom[0]->count(); ++i)
      sum[i % bottom[0]->count()] += from[i];
  }

 private:
  int64_t times_ = 1;
};

// Two readers of the repeated rows, one of them in place, and layers that share memory with values
// in front of them.
TEST_F(LateShapes, MayExceedWhatWasGuessed) {
  if (!Registry::instance().has("TestRepeats")) Registry::instance().add<Repeats>("TestRepeats");
  const auto net = [](int64_t rows, const std::string& repeats, const std::string& read) {
    return net_param(
        text("force_backward: true layer { name: 'x' type: 'Input' top: 'x' "
             "input_param { shape { dim: ",
             rows,
             " dim: 4 } } } layer { name: 'p' type: 'Power' bottom: 'x' top: "
             "'p' power_param { scale: 2 } }",
             repeats, R"(
layer { name: "relu" type: "ReLU" bottom: ")",
             read, R"(" top: "a" relu_param { negative_slope: 0.5 } }
layer { name: "ip" type: "InnerProduct" bottom: ")",
             read, R"(" top: "b"
        inner_product_param { num_output: 4 weight_filler { type: "xavier" } } }
layer { name: "tanh" type: "TanH" bottom: "b" top: "b" }
layer { name: "sum" type: "Eltwise" bottom: "a" bottom: "b" top: "s" }
layer { name: "flat" type: "Reshape" bottom: "s" top: "f" reshape_param { shape { dim: -1 dim: 2 } } }
layer { name: "loss" type: "Reduction" bottom: "f" top: "l" loss_weight: 1
        reduction_param { operation: SUMSQ } })"));
  };
  for (const bool keep_all : {false, true}) {
    SCOPED_TRACE(keep_all);
    Context context;
    Net repeated(net(3, "layer { name: 'r' type: 'TestRepeats' bottom: 'p' top: 'r' }", "r"),
                 context, {.keep_all = keep_all});
    const size_t planned = repeated.memory().activations;
    for (const int64_t times : {1, 5, 2, 200, 1, 7}) {
      SCOPED_TRACE(times);
      Net direct(net(3 * times, "", "p"), context);
      fill_inputs(repeated);
      // What the first value says is what it is doubled to.
      repeated.input("x").change<float>()[0] = static_cast<float>(times) / 2;
      float* to = direct.input("x").change<float>();
      for (int64_t i = 0; i < times; ++i)
        to = std::copy_n(repeated.input("x").read<float>(), 12, to);
      for (Net* each : {&repeated, &direct}) {
        each->clear_gradients();
        each->forward();
        each->backward();
      }
      EXPECT_NEAR(repeated.output("l").at(0), direct.output("l").at(0),
                  1e-4 * std::abs(direct.output("l").at(0)));
      const auto expected = gradients_of(direct), actual = gradients_of(repeated);
      ASSERT_EQ(actual.size(), expected.size());
      for (size_t i = 0; i < expected.size(); ++i)
        EXPECT_NEAR(actual[i], expected[i], 1e-3 * (1 + std::abs(expected[i])));
      for (int64_t i = 0; i < 12; ++i) {
        double sum = 0;
        for (int64_t n = 0; n < times; ++n) sum += direct.blob("x").diff.at(n * 12 + i);
        EXPECT_NEAR(repeated.blob("x").diff.at(i), sum, 1e-3 * (1 + std::abs(sum))) << i;
      }
    }
    EXPECT_EQ(repeated.memory().activations, planned) << "planned anew";
  }
}

/// Labels and targets for each place of a map, as layers of detectors in scripts make them: its
/// reshape() leaves the tops as the last image had them.
class Anchors : public Layer {
 public:
  using Layer::Layer;
  Arity arity() const override { return {.min_tops = 2, .max_tops = 2}; }
  TopShapes top_shapes() const override { return TopShapes::from_values; }
  bool has_unbounded_tops() const override { return true; }
  bool can_propagate(int) const override { return false; }
  void setup(Blobs bottom, Blobs top) override { set_shapes(bottom, top); }
  void reshape(Blobs, Blobs) override {}
  void forward_cpu(Blobs bottom, Blobs top) override {
    set_shapes(bottom, top);
    give(bottom[0]->data, top[0]->data, top[1]->data);
  }

  /// (1, 1, C * H, W), for a map of (1, C, H, W).
  static Shape labels_of(const Shape& map) { return {1, 1, map[1] * map[2] + more_, map[3]}; }
  static void give(const Tensor& map, Tensor& labels, Tensor& targets) {
    labels.fill(0);
    for (int64_t i = 0; i < map.count(); ++i) {
      const float value = map.read<float>()[i];
      labels.change<float>()[i] = value > 0 ? 1.F : 0.F;
      targets.change<float>()[i] = 2 * value;
    }
  }
  static inline int64_t more_ = 0;  // rows, which no reader takes

 private:
  static void set_shapes(Blobs bottom, Blobs top) {
    top[0]->reshape(labels_of(bottom[0]->shape()));
    top[1]->reshape(bottom[0]->shape());
  }
};

class Guesses : public LateShapes {
 protected:
  static void SetUpTestSuite() {
    if (!Registry::instance().has("TestAnchors")) Registry::instance().add<Anchors>("TestAnchors");
  }
  void SetUp() override { Anchors::more_ = 0; }
  /// Scores and boxes of a map, learned from what `anchors`, a layer, or the caller gives.
  static NetParameter net(const Shape& map, const std::string& anchors) {
    return net_param(text(R"(
layer { name: "x" type: "Input" top: "x"
        input_param { shape { dim: 1 dim: 3 dim: )",
                          map[2], " dim: ", map[3], " } } }", anchors, R"(
layer { name: "conv" type: "Convolution" bottom: "x" top: "c"
        convolution_param { num_output: 6 kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } }
layer { name: "scores" type: "Reshape" bottom: "c" top: "s"
        reshape_param { shape { dim: 0 dim: 2 dim: -1 dim: 0 } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "s" bottom: "labels" top: "loss" }
layer { name: "boxes" type: "Convolution" bottom: "x" top: "b"
        convolution_param { num_output: 3 kernel_size: 1 weight_filler { type: "xavier" } } }
layer { name: "sum" type: "Eltwise" bottom: "b" bottom: "targets" top: "far" }
layer { name: "relu" type: "ReLU" bottom: "far" top: "far" relu_param { negative_slope: 0.1 } }
layer { name: "box_loss" type: "EuclideanLoss" bottom: "far" bottom: "targets" top: "box_loss" })"));
  }
  static NetParameter learned(const Shape& map) {
    return net(map,
               "layer { name: 'a' type: 'TestAnchors' bottom: 'x' top: 'labels' "
               "top: 'targets' }");
  }
  static NetParameter given(const Shape& map) {
    const auto input = [](const char* name, const Shape& shape) {
      std::string dims;
      for (const int64_t dim : shape.dims()) dims += text(" dim: ", dim);
      return text("layer { name: '", name, "' type: 'Input' top: '", name,
                  "' input_param { shape {", dims, " } } }");
    };
    return net(map, input("labels", Anchors::labels_of(map)) + input("targets", map));
  }
};

// Planning for the second image was refused: its scores met the labels of the first one.
TEST_F(Guesses, ThatReadersRefuseWaitForThePass) {
  for (const bool keep_all : {false, true}) {
    SCOPED_TRACE(keep_all);
    Context context;
    Net late(learned({1, 3, 5, 4}), context, {.keep_all = keep_all});
    for (const Shape& map : {Shape{1, 3, 5, 4}, Shape{1, 3, 5, 7}, Shape{1, 3, 3, 2},
                             Shape{1, 3, 5, 4}, Shape{1, 3, 8, 9}, Shape{1, 3, 5, 7}}) {
      SCOPED_TRACE(map.str());
      late.reshape_input("x", map);
      fill_inputs(late);
      Net direct(given(map), context);
      direct.input("x").copy_from(late.input("x"));
      Anchors::give(direct.input("x"), direct.input("labels"), direct.input("targets"));
      for (Net* each : {&late, &direct}) {
        each->clear_gradients();
        each->forward();
        each->backward();
      }
      for (const char* loss : {"loss", "box_loss"})
        EXPECT_NEAR(late.output(loss).at(0), direct.output(loss).at(0), 1e-5) << loss;
      const auto expected = gradients_of(direct), actual = gradients_of(late);
      ASSERT_EQ(actual.size(), expected.size());
      for (size_t i = 0; i < expected.size(); ++i)
        EXPECT_NEAR(actual[i], expected[i], 1e-4 * (1 + std::abs(expected[i]))) << i;
    }
  }
}

TEST_F(Guesses, ThatThePassRefusesAreErrors) {
  Context context;
  Net late(learned({1, 3, 5, 4}), context, {.keep_all = true});
  late.reshape_input("x", {1, 3, 5, 7});
  for (int pass = 0; pass < 2; ++pass) {
    fill_inputs(late);
    Anchors::more_ = 1;
    expect_error([&] { late.forward(); }, {"layer 'loss' (SoftmaxWithLoss)", "1x1x16x7"});
    Anchors::more_ = 0;
    late.forward();
    EXPECT_EQ(late.blob("labels").shape(), (Shape{1, 1, 15, 7}));
  }
}

TEST_F(LateShapes, PartsRunInShapesThatLaterLayersRefuse) {
  Context context;
  Net net(net_param(R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 2 dim: 9 dim: 9 } } }
layer { name: "conv" type: "Convolution" bottom: "x" top: "c"
        convolution_param { num_output: 2 kernel_size: 3 weight_filler { type: "xavier" } } }
layer { name: "pool" type: "Pooling" bottom: "c" top: "y" pooling_param { kernel_size: 7 } })"),
          context, {.phase = Phase::test, .keep_all = true});
  net.forward();
  net.reshape_input("x", {1, 2, 5, 5});
  net.forward(0, 1);
  EXPECT_EQ(net.blob("c").shape(), (Shape{1, 2, 3, 3}));
  expect_error([&] { net.forward(); }, {"layer 'pool' (Pooling)"});
  expect_error([&] { net.forward(1, 2); }, {"layer 'pool' (Pooling)"});
  net.forward(1, 1);
  net.reshape_input("x", {1, 2, 9, 9});
  net.forward();
  EXPECT_EQ(net.output("y").shape(), (Shape{1, 2, 1, 1}));
}

// Readers went on with the rows that they knew, without a word.
TEST_F(LateShapes, OfALayerThatDoesNotSaySoAreErrors) {
  FirstRows::shapes_ = TopShapes::fixed;
  Context context;
  Net plain(net(), context, {.phase = Phase::test});
  plain.input("x").change<float>()[0] = 2;
  expect_error([&] { plain.forward(); },
               {"layer 'rows' (TestFirstRows)", "changed the shape", "11x4", "2x4"});
}

// Gradients equal those of a net in which every blob has its own memory.
TEST_F(LateShapes, GradientsOfConcatAndOfRecomputedLayers) {
  const auto gradients = [](const std::string& recompute, bool keep_all) {
    Context context({.engine = "reference"});
    Net rows(net_param(text(R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 16 } } }
layer { name: "ones" type: "Input" top: "ones" input_param { shape { dim: 4 dim: 16 } } }
layer { name: "scale" type: "Scale" bottom: "x" top: "v"
        scale_param { filler { type: "constant" value: 1 } } }
layer { name: "rv" type: "TestFirstRows" bottom: "v" top: "rv" )",
                            recompute, R"( }
layer { name: "scale2" type: "Scale" bottom: "x" top: "w"
        scale_param { filler { type: "constant" value: 1 } } }
layer { name: "rw" type: "TestFirstRows" bottom: "w" top: "rw" }
layer { name: "both" type: "Concat" bottom: "rv" bottom: "rw" top: "c" concat_param { axis: 0 } }
layer { name: "ip" type: "InnerProduct" bottom: "c" top: "y"
        inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "s" type: "Sigmoid" bottom: "y" top: "s" loss_weight: 1 })")),
             context, {.fuse = false, .keep_all = keep_all});
    fill_inputs(rows);
    rows.input("x").change<float>()[0] = 2;
    rows.forward();
    EXPECT_EQ(rows.output("s").shape(), (Shape{4, 3}));
    rows.clear_gradients();
    rows.backward();
    return gradients_of(rows);
  };
  const std::vector<double> expected = gradients("", true);
  EXPECT_EQ(gradients("", false), expected);
  EXPECT_EQ(gradients("recompute: true", false), expected);
}

/// The identity for all numbers of rows but 3.
class RefusesThree : public Layer {
 public:
  using Layer::Layer;
  void reshape(Blobs bottom, Blobs top) override {
    if (bottom[0]->shape()[0] == 3) throw Error("has no use for 3 rows");
    top[0]->reshape(bottom[0]->shape());
  }
  void forward_cpu(Blobs bottom, Blobs top) override { top[0]->data.copy_from(bottom[0]->data); }
};

TEST_F(LateShapes, RefusedShapesAreRefusedAgain) {
  if (!Registry::instance().has("TestRefusesThree")) {
    Registry::instance().add<RefusesThree>("TestRefusesThree");
  }
  Context context;
  Net picky(net_param(R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 16 } } }
layer { name: "rows" type: "TestFirstRows" bottom: "x" top: "r" }
layer { name: "picky" type: "TestRefusesThree" bottom: "r" top: "y" })"),
            context, {.phase = Phase::test});
  for (int pass = 0; pass < 2; ++pass) {
    picky.input("x").change<float>()[0] = 3;
    expect_error([&] { picky.forward(); }, {"layer 'picky'", "no use for 3 rows"});
    expect_error([&] { picky.forward(); }, {"layer 'picky'", "no use for 3 rows"});
    picky.input("x").change<float>()[0] = 2;
    picky.forward();
    EXPECT_EQ(picky.output("y").shape(), (Shape{2, 16}));
  }
}

}  // namespace
}  // namespace crema
