// crema export-onnx, import-onnx and compare, and other commands on models of ONNX.
#include <cmath>
#include <cstring>

#include "crema/net.hpp"
#include "features/npy_file.hpp"
#include "model/binary_format.hpp"
#include "model/snapshot_file.hpp"
#include "onnx/model_file.hpp"
#include "support/database.hpp"
#include "support/needs.hpp"
#include "support/net_test.hpp"
#include "tools/cli.hpp"

namespace {

namespace fs = std::filesystem;
using namespace crema;
using namespace crema::test;

const char* const kNet = R"(name: "small"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 8 dim: 8 } } }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1" convolution_param {
  num_output: 4 kernel_size: 3 pad: 1 bias_term: false weight_filler { type: "xavier" } } }
layer { name: "bn1" type: "BatchNorm" bottom: "conv1" top: "bn1" }
layer { name: "scale1" type: "Scale" bottom: "bn1" top: "scale1" scale_param { bias_term: true } }
layer { name: "relu1" type: "ReLU" bottom: "scale1" top: "scale1" }
layer { name: "pool1" type: "Pooling" bottom: "scale1" top: "pool1" pooling_param { pool: MAX kernel_size: 3 stride: 2 } }
layer { name: "fc" type: "InnerProduct" bottom: "pool1" top: "fc" inner_product_param {
  num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "prob" type: "Softmax" bottom: "fc" top: "prob" }
)";

class OnnxCliTest : public CliTest {
 protected:
  void SetUp() override {
    deploy_ = write("deploy.prototxt", kNet);
    weights_ = path("net.caffemodel");
    model_ = path("net.onnx");
    Context context;
    Net net(net_param(kNet), context, {.phase = Phase::test});
    fill("bn1", 0, 0.05, net);
    fill("bn1", 1, 0.4, net);
    fill("bn1", 2, 2, net);  // mean 0.025, variance 0.2
    fill("scale1", 0, 1.25, net);
    fill("scale1", 1, 0.5, net);
    NetParameter saved;
    net.save(saved);
    for (const char* name : {"ant", "bee", "cow"}) saved.mutable_origin()->add_class_name(name);
    TransformationParameter& transform = *saved.mutable_origin()->mutable_transform();
    for (const float mean : {10.F, 20.F, 30.F}) transform.add_mean_value(mean);
    transform.set_scale(0.5F);
    write_weights(weights_, saved);
  }

  static void fill(const char* layer, size_t index, double value, Net& net) {
    net.layer(layer).params()[index]->data.fill(value);
  }
  /// The command that writes the model.
  std::string exporting(const std::string& more = "") const {
    return "export-onnx --model " + deploy_ + " --weights " + weights_ + " -o " + model_ + " " +
           more;
  }
  void make_model(const std::string& more = "") const {
    const Output made = run(exporting(more));
    ASSERT_EQ(made.status, 0) << made.text;
  }
  std::string metadata(const std::string& key) const {
    const onnx::ModelProto model = onnx::read_model(model_);
    for (const auto& entry : model.metadata_props()) {
      if (entry.key() == key) return entry.value();
    }
    return "";
  }
  /// A weight of the layer becomes another one, in the file.
  void change_weight(const std::string& name) const {
    onnx::ModelProto model = onnx::read_model(model_);
    for (onnx::TensorProto& tensor : *model.mutable_graph()->mutable_initializer()) {
      if (tensor.name() != name) continue;
      std::string& bytes = *tensor.mutable_raw_data();
      const float other = 5;
      ASSERT_GE(bytes.size(), sizeof other);
      std::memcpy(bytes.data(), &other, sizeof other);
      onnx::write_model(model_, std::move(model));
      return;
    }
    FAIL() << "the model has no constant '" << name << "'";
  }
  static void expect_says(const Output& output, std::initializer_list<const char*> parts) {
    for (const char* part : parts)
      EXPECT_TRUE(output.says(part)) << part << " is not in: " << output.text;
  }

  std::string deploy_, weights_, model_;
};

TEST_F(OnnxCliTest, ANetGoesOutAndComesBack) {
  const Output made = run(exporting());
  ASSERT_EQ(made.status, 0) << made.text;
  expect_says(made, {"prob ", "absolute ", "imported again", "onnxruntime", "of opset 17"});
  EXPECT_FALSE(made.says("not trained")) << made.text;
  EXPECT_EQ(metadata("crema.labels"), R"(["ant", "bee", "cow"])");
  EXPECT_NE(metadata("crema.origin").find("scale: 0.5"), std::string::npos);
  for (const auto& entry : fs::directory_iterator(fs::path(model_).parent_path()))
    EXPECT_FALSE(entry.is_directory()) << entry.path() << " is left";

  const Output imported = run("import-onnx " + model_ + " -o " + path("back"));
  ASSERT_EQ(imported.status, 0) << imported.text;
  const std::string prototxt = read_file(path("back/deploy.prototxt"));
  for (const char* part :
       {"# Made of net.onnx by crema import-onnx.", "name: \"conv1\"", "type: \"Convolution\"",
        "type: \"BatchNorm\"", "type: \"Scale\"", "type: \"ReLU\"", "name: \"fc\"",
        "type: \"InnerProduct\"", "type: \"Softmax\"", "weight_filler"})
    EXPECT_NE(prototxt.find(part), std::string::npos) << part << " is not in:\n" << prototxt;
  for (const char* part : {"blobs", "OnnxOperator", "origin"})
    EXPECT_EQ(prototxt.find(part), std::string::npos) << part << " is in:\n" << prototxt;

  const std::string back = path("back/deploy.prototxt") + " " + path("back/net.caffemodel");
  for (const std::string& other : {model_, back}) {
    const Output same = run("compare " + deploy_ + " " + weights_ + " " + other);
    EXPECT_EQ(same.status, 0) << same.text;
    expect_says(same, {"scale1", "fc", "outputs\nprob", " agree: largest relative"});
    EXPECT_FALSE(same.says("differs")) << same.text;
  }
  NetParameter weights;
  read_weights(path("back/net.caffemodel"), weights);
  EXPECT_EQ(weights.origin().class_name_size(), 3);
  EXPECT_EQ(weights.origin().transform().mean_value_size(), 3);
}

TEST_F(OnnxCliTest, AllOpsetsAndOptions) {
  for (const char* options : {"--opset 13", "--opset 21 --overwrite", "--opset 23 --overwrite"}) {
    make_model(options);
    EXPECT_EQ(run("compare " + deploy_ + " " + weights_ + " " + model_).status, 0) << options;
  }
  make_model("--fold --overwrite");
  const Output folded = run("summary --phase TEST --nofuse --model " + model_);
  EXPECT_EQ(folded.status, 0) << folded.text;
  EXPECT_TRUE(folded.says("Convolution")) << folded.text;
  EXPECT_FALSE(folded.says("BatchNorm") || folded.says("Scale ")) << folded.text;

  make_model("--dynamic_batch --overwrite");
  EXPECT_EQ(
      onnx::read_model(model_).graph().input(0).type().tensor_type().shape().dim(0).dim_param(),
      "batch");
  Tensor batch({3, 3, 8, 8});
  auto* const values = batch.overwrite<float>();
  for (int64_t i = 0; i < batch.count(); ++i) values[i] = static_cast<float>(std::sin(i));
  write_npy(path("x.npy"), batch);
  const Output three =
      run("compare " + deploy_ + " " + weights_ + " " + model_ + " --input " + path("x.npy"));
  EXPECT_EQ(three.status, 0) << three.text;
  const Output ran = run("import-onnx " + model_ + " --input data=" + path("x.npy") +
                         " --save_outputs " + path("y.npy"));
  ASSERT_EQ(ran.status, 0) << ran.text;
  EXPECT_EQ(read_npy(path("y.npy"), "y").shape(), (Shape{3, 3}));
  const Output as_array =
      run("import-onnx " + model_ + " -o " + path("three") + " --input " + path("x.npy"));
  ASSERT_EQ(as_array.status, 0) << as_array.text;
  EXPECT_NE(read_file(path("three/deploy.prototxt")).find("dim: 3\n      dim: 3\n"),
            std::string::npos);
  const Output shaped = run("import-onnx " + model_ + " -o " + path("five") + " --shape 5x3x8x8");
  ASSERT_EQ(shaped.status, 0) << shaped.text;
  EXPECT_NE(read_file(path("five/deploy.prototxt")).find("dim: 5"), std::string::npos);
}

TEST_F(OnnxCliTest, PixelsBecomeWhatTheNetWasTrainedOn) {
  make_model("--preprocess");
  EXPECT_EQ(metadata("crema.mean"), "") << "who reads it would subtract the mean twice";
  // (n + 10, n + 20, n + 30) / 2 of blue, green and red are n of the net's input.
  Context context;
  Net net(deploy_, context, {.phase = Phase::test, .weights = {weights_}});
  Net model(model_, context, {.phase = Phase::test});
  const float means[] = {10, 20, 30};
  auto* const seen = net.input("data").overwrite<float>();
  auto* const pixels = model.input(model.inputs()[0]).overwrite<float>();
  for (size_t c = 0; c < 3; ++c) {
    for (size_t i = 0; i < 64; ++i) {
      const auto pixel = static_cast<float>((c * 64 + i) * 7 % 256);
      seen[c * 64 + i] = (pixel - means[c]) * 0.5F;
      pixels[(2 - c) * 64 + i] = pixel;
    }
  }
  net.forward();
  model.forward();
  for (int64_t i = 0; i < 3; ++i)
    EXPECT_NEAR(model.output("prob").at(i), net.output("prob").at(i), 1e-5);

  Net bare(net_param(kNet), context, {.phase = Phase::test});
  bare.save_weights(path("bare.caffemodel"));
  expect_refusal("export-onnx --model " + deploy_ + " --weights " + path("bare.caffemodel") +
                     " -o " + path("bare.onnx") + " --preprocess",
                 {"preprocessing", "do not say"});
  EXPECT_FALSE(fs::exists(path("bare.onnx")));
}

TEST_F(OnnxCliTest, RefusesWhatItCannotWrite) {
  expect_refusal("export-onnx -o " + model_, {"--model is missing"});
  expect_refusal("export-onnx --model " + deploy_, {"-o is missing; give it as -o NET.onnx"});
  expect_refusal("export-onnx --model " + deploy_ + " -o " + path("net.txt"), {"ends in .onnx"});
  expect_refusal(exporting(deploy_), {"--model=FILE"});
  for (const char* opset : {"12", "24", "-1"})
    expect_refusal(exporting(std::string("--opset ") + opset), {"--opset=", "13 to 23"});
  expect_refusal("export-onnx --model " + path("none.prototxt") + " -o " + model_,
                 {"none.prototxt"});
  expect_refusal("export-onnx --model " + deploy_ + " --weights " + deploy_ + " -o " + model_,
                 {"deploy.prototxt"});
  expect_refusal(exporting("--input " + path("none.npy")), {"none.npy"});
  expect_refusal(exporting("--input image=" + path("none.npy")), {"there is no 'image'", "data"});
  expect_refusal("export-onnx --model " + net() + " -o " + model_,
                 {"'loss' (SoftmaxWithLoss)", "crema deploy"});
  EXPECT_FALSE(fs::exists(model_));
  make_model();
  const std::string before = read_file(model_);
  expect_refusal(exporting("--opset 13"), {"net.onnx", "exists", "--overwrite"});
  EXPECT_EQ(read_file(model_), before);
  expect_refusal("export-onnx --model " + model_ + " -o " + model_ + " --overwrite", {"net.onnx"});

  const Output random = run("export-onnx --model " + deploy_ + " -o " + path("random.onnx"));
  EXPECT_EQ(random.status, 0) << random.text;
  expect_says(random, {"without --weights", "fillers", "not trained"});
}

TEST_F(OnnxCliTest, AProofThatShowsNothingSaysSo) {
  const char* const warning = "prob is the same for other inputs, so that the proof shows nothing";
  EXPECT_FALSE(run(exporting()).says(warning));
  std::string zeros = kNet;
  const std::string filler = "\"xavier\"";
  for (size_t at = zeros.find(filler); at != std::string::npos; at = zeros.find(filler, at + 1))
    zeros.replace(at, filler.size(), "\"constant\"");
  const Output constant =
      run("export-onnx --model " + write("zeros.prototxt", zeros) + " -o " + path("zeros.onnx"));
  EXPECT_EQ(constant.status, 0) << constant.text;
  expect_says(constant, {warning, "--input"});
  expect_says(run("import-onnx " + path("zeros.onnx") + " -o " + path("zeros")), {warning});
}

TEST_F(OnnxCliTest, RefusesWhatItCannotRead) {
  make_model();
  expect_refusal("import-onnx", {"takes one model"});
  expect_refusal("import-onnx " + model_, {"-o is missing; give it as -o FOLDER"});
  expect_refusal("import-onnx " + deploy_ + " -o " + path("a"), {"deploy.prototxt", "ONNX"});
  expect_refusal("import-onnx " + path("none.onnx") + " -o " + path("a"), {"none.onnx"});
  for (const char* shape : {"3x", "x", "0x3x8x8", "data=1x3x8xq"})
    expect_refusal("import-onnx " + model_ + " -o " + path("a") + " --shape " + shape,
                   {"--shape", "1x3x224x224"});
  expect_refusal("import-onnx " + model_ + " -o " + path("a") + " --shape image=1x3x8x8",
                 {"there is no 'image'", "data"});
  expect_refusal("import-onnx " + model_ + " --save_outputs scores=" + path("y.npy"),
                 {"there is no 'scores'", "prob"});
  const std::string whole = read_file(model_);
  for (const size_t length : {size_t{0}, size_t{7}, whole.size() / 2, whole.size() - 1}) {
    const std::string cut = write("cut.onnx", whole.substr(0, length));
    expect_refusal("import-onnx " + cut + " -o " + path("a"), {"cut.onnx"});
    expect_refusal("summary --model " + cut, {"cut.onnx"});
  }
  EXPECT_FALSE(fs::exists(path("a")));
  ASSERT_EQ(run("import-onnx " + model_ + " -o " + path("a")).status, 0);
  expect_refusal("import-onnx " + model_ + " -o " + path("a"), {"exists", "--overwrite"});
  EXPECT_EQ(run("import-onnx " + model_ + " -o " + path("a") + " --overwrite").status, 0);
}

TEST_F(OnnxCliTest, CompareFindsTheFirstThatDiffers) {
  make_model();
  const std::string compare = "compare " + deploy_ + " " + weights_ + " " + model_;
  change_weight("fc.weight");
  const Output differ = run(compare);
  EXPECT_EQ(differ.status, 1) << differ.text;
  expect_says(differ,
              {"the first that differs: 'fc', of layer 'fc'", "differs", " differ: largest"});
  EXPECT_EQ(run(compare + " --tolerance 1000").status, 0);
  // Export proves what it writes by reading it again, so that only reading can see it.
  change_weight("conv1.weight");
  expect_says(run(compare), {"the first that differs: 'scale1', of layer 'relu1'"});

  expect_refusal("compare " + model_, {"takes two nets", "got 1"}, 2);
  expect_refusal("compare " + weights_ + " " + model_, {"net.caffemodel", "in front of"}, 2);
  const std::string smaller = write("smaller.prototxt", R"(
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 4 dim: 4 } } }
layer { name: "prob" type: "Softmax" bottom: "data" top: "prob" })");
  expect_refusal("compare " + smaller + " " + model_, {"'fc' (InnerProduct)", "keep the size"}, 2);
}

TEST_F(OnnxCliTest, ModelsAreNetsAndWeightsOfOtherCommands) {
  make_model();
  const std::string model = " --model " + model_ + " ";
  const auto expect_good = [&](const std::string& arguments,
                               std::initializer_list<const char*> parts) {
    const Output output = run(arguments);
    EXPECT_EQ(output.status, 0) << arguments << "\n" << output.text;
    for (const char* part : parts)
      EXPECT_TRUE(output.says(part)) << part << " is not in: " << output.text;
  };
  expect_good("summary --phase TEST" + model, {"conv1", "InnerProduct", "1x3"});
  expect_good("time --iterations 1 --phase TEST" + model, {"conv1", "forward"});
  expect_good("profile --iterations 1 --phase TEST --trace " + path("t.json") + model, {"t.json"});
  expect_good("draw " + model_ + " " + path("net.svg"), {});
  EXPECT_NE(read_file(path("net.svg")).find("conv1"), std::string::npos);
  expect_good("deploy " + model_, {"type: \"Convolution\"", "type: \"Softmax\""});
  EXPECT_FALSE(run("deploy " + model_).says("blobs"));
  expect_good("merge-bn " + model_ + " " + model_ + " " + path("merged.prototxt") + " " +
                  path("merged.caffemodel"),
              {"folded into 'conv1'"});
  EXPECT_EQ(read_file(path("merged.prototxt")).find("blobs"), std::string::npos);
  expect_good("compare " + model_ + " " + path("merged.prototxt") + " " + path("merged.caffemodel"),
              {"agree"});
  expect_good("export-onnx --opset 21 -o " + path("again.onnx") + model, {"of opset 21"});
  expect_good("compare " + model_ + " " + path("again.onnx"), {"agree"});
  const Output again = run("inspect " + path("again.onnx"));
  expect_says(again, {"weights file, ONNX", "conv1", "fc", "class names: 3: ant, bee, cow",
                      "(pixel - 10,20,30) * 0.5"});
  expect_good("diff " + model_ + " " + path("again.onnx"), {"0 different", "weights file, ONNX"});
  const Output diff = run("diff " + weights_ + " " + model_);
  EXPECT_TRUE(diff.says("0 of other shapes")) << diff.text;
  expect_refusal("checksum " + model_, {"net.onnx", "carries no checksum", "crema inspect"});
  // No data, as in any net for inference.
  expect_refusal("test --iterations 1" + model, {"input 'data'"});
  expect_refusal("extract-features " + model_ + " " + model_ + " fc " + path("rows"),
                 {"input 'data'"});
}

TEST_F(OnnxCliTest, FineTunesFromAModel) {
  make_model();
  const std::string data =
      "layer { name: 'data' type: 'DummyData' top: 'data' top: 'label' dummy_data_param { shape { "
      "dim: 4 dim: 3 dim: 8 dim: 8 } shape { dim: 4 } data_filler { type: 'gaussian' std: 1 } "
      "data_filler { type: 'constant' value: 1 } } }";
  std::string text = kNet;
  const size_t begin = text.find("layer {"), end = text.find('\n', begin);
  text.replace(begin, end - begin, data);
  const size_t softmax = text.find("layer { name: \"prob\"");
  text.replace(softmax, text.size() - softmax,
               "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'fc' bottom: 'label' top: "
               "'loss' }");
  const std::string train_val = write("train_val.prototxt", text);
  const std::string solver =
      write("solver.prototxt", "net: '" + train_val +
                                   "' base_lr: 0.01 lr_policy: 'fixed' max_iter: 3 display: 1 "
                                   "snapshot_after_train: false");
  const Output tuned = run("train --solver " + solver + " --weights " + model_);
  EXPECT_EQ(tuned.status, 0) << tuned.text;
  expect_says(tuned, {"net.onnx: weights: 4 layers loaded, 0 missing", "Optimization Done"});
  EXPECT_EQ(run("test --iterations 1 --model " + train_val + " --weights " + model_).status, 0);
  const Output rows =
      run("extract-features " + model_ + " " + train_val + " fc " + path("rows.npy") + " 2 npy");
  EXPECT_EQ(rows.status, 0) << rows.text;
  EXPECT_EQ(read_npy(path("rows.npy"), "rows").shape(), (Shape{8, 3}));
}

TEST_F(OnnxCliTest, ClassifiesWithItsOwnWeightsClassesAndPixels) {
  if (!kBuiltWithOpenCv) GTEST_SKIP() << "needs OpenCV: configure with CREMA_OPENCV=ON";
  make_model();
  std::string pixels;
  for (int i = 0; i < 8 * 8 * 3; ++i) pixels += static_cast<char>(i * 7 % 256);
  const std::string photo = write("photo.ppm", ppm(8, 8, pixels));
  const std::string classify = "classify --json " + photo + " --model ";
  const Output expected = run(classify + deploy_ + " --weights " + weights_);
  ASSERT_EQ(expected.status, 0) << expected.text;
  EXPECT_TRUE(expected.says("\"bee\"")) << expected.text;
  const Output given = run(classify + model_);
  EXPECT_EQ(given.status, 0) << given.text;
  EXPECT_TRUE(given.says("--mean=10,20,30 --scale=0.5")) << given.text;
  // Of the scores, digits that rounding leaves alone.
  const auto best = [](const Output& output) {
    const size_t at = output.text.find("\"label\": ");
    return output.text.substr(at, output.text.find("\"score\"", at) + 13 - at);
  };
  EXPECT_EQ(best(given), best(expected));
  expect_refusal(classify + deploy_, {"--weights is missing"});
}

}  // namespace
