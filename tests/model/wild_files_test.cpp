// Reads and upgrades the nets and solvers that people published, of all formats and forks.
#include "support/wild_files.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "crema/registry.hpp"
#include "model/text_format.hpp"
#include "model/upgrade/upgrade.hpp"
#include "proto/net.pb.h"
#include "proto/solver.pb.h"

namespace crema {
namespace {

using test::PublishedFile;

// The files that no published schema reads, and that are not read here either: where each first
// goes wrong, and at what. By the end of their path.
const std::map<std::string, std::string>& refused() {
  static const std::map<std::string, std::string> kRefused = {
      // Layer types of V1 forks.
      {"1e13b50965c9/examples/mnist/lenet_local_train_test.prototxt",
       ":65:9: layer 'local1': 'LOCAL_WEIGHTED_CONVOLUTION' is no value of 'type'"},
      {"2c9abcb8a938/examples/mnist/lenet_train_test.prototxt",
       ":34:9: layer 'cp1': 'IMPORT' is no value of 'type'"},
      {"examples/mnist/mnist_kSAE_deploy.prototxt",
       ":39:9: layer 'neuron1': 'TOPK' is no value of 'type'"},
      {"ucf101_optical_flow/deconv3d_ucf101_brox.prototxt",
       ":4:9: layer 'data': 'VIDEO_WITH_VOXEL_TRUTH_DATA' is no value of 'type'"},
      {"c4cfbbc413ba/examples/mnist/lenet_train_test.prototxt",
       ":12:3: layer 'mnist' (DATA): unknown field 'enable'"},
      // Layers of one fork alone.
      {"andoc_1m_labeled/color_mirror_crop_train_val.prototxt",
       ":10:3: layer 'data' (DocData): unknown field 'doc_data_param'"},
      {"examples/cifar10/cifar10_full_train_test_sync_client.prototxt",
       ":10:3: layer 'cifar' (RemoteData): unknown field 'remote_data_param'"},
      {"examples/warpctc_captcha/lstm_ctc.prototxt",
       ":155:3: layer 'accuracy' (LabelsequenceAccuracy): unknown field "
       "'labelsequence_accuracy_param'"},
      {"examples/mnist/mnist_rbm.prototxt",
       ":51:3: layer 'fc_rbm_1_layer' (RBMInnerProduct): unknown field 'rbm_inner_product_param'"},
      {"src/caffe/test/inner_distance_layer.prototxt",
       ":20:3: layer 'ip1' (InnerDistance): unknown field 'inner_distance_param'"},
      {"tiny-yolo/tiny_yolo_train.prototxt",
       ":437:3: layer 'det_loss' (DetectionLoss): unknown field 'detection_loss_param'"},
      {"siameseMTri/mnist_siamese_train_test.prototxt",
       ":300:3: layer 'loss' (MTriangularLoss): unknown field 'mtriangular_loss_param'"},
      // Fields of one fork alone.
      {"cpm_architecture/prototxt/pose_train_test.prototxt",
       ":7:5: layer 'data' (CPMData): unknown field 'stride' in transform_param"},
      {"models/bvlc_alexnet/train_val_transform.prototxt",
       ":16:5: layer 'data' (Data): unknown field 'var_sz_img_rand_resize_lower'"},
      {"examples/c3d_ucf101_training/train_simple.prototxt",
       ":18:5: layer 'data' (VideoData): unknown field 'source' in video_data_param"},
      {"yolo_v3/caffe_model/yolov3-tiny.prototxt",
       ":28:2: layer 'layer1-bn' (BatchNorm): unknown field 'add_eps_before_sqrt'"},
      {"models/ucf101/tsn_bn_inception_rgb_solver.prototxt",
       ":30:12: 'device_id' takes one value, not a list"},
      // Mistakes.
      {"segmentationcrfasrnn/TVG_CRFRNN_new_traintest.prototxt",
       ":4:9: layer 'data_rgb': \"Data\" is no value of 'type' in layers"},
      {"LRCN_activity_recognition/train_test_singleFrame_flow.prototxt",
       ":1:1: unknown field 'ame' in a NetParameter; did you mean 'name'?"}};
  return kRefused;
}

// The expected complaint about a file; "" for one that has to be read.
std::string expected_complaint(const PublishedFile& file) {
  for (const auto& [ending, complaint] : refused()) {
    if (file.path.ends_with(ending)) return complaint;
  }
  return "";
}

// Reads and upgrades the file.
std::string complaint_about(const std::string& path, google::protobuf::Message& message) {
  try {
    SourceMap source;
    read_text_proto(path, message, &source);
    if (auto* net = dynamic_cast<NetParameter*>(&message)) upgrade_net(*net, source);
    if (auto* solver = dynamic_cast<SolverParameter*>(&message)) upgrade_solver(*solver, source);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(WildFilesTest, EachIsReadOrRefusedForAKnownReason) {
  const std::filesystem::path folder = test::shared_path("wild");
  const std::vector<PublishedFile> files = test::published_files(folder);
  if (files.empty()) {
    GTEST_SKIP() << "needs " << folder << ": set CREMA_SHARED_DIR";
  }
  int nets = 0, solvers = 0;
  size_t refusals = 0;
  for (const PublishedFile& file : files) {
    SCOPED_TRACE(file.path);
    NetParameter net;
    SolverParameter solver;
    if (file.kind != "net" && file.kind != "solver") continue;
    google::protobuf::Message& message =
        file.kind == "net" ? static_cast<google::protobuf::Message&>(net) : solver;
    const std::string complaint = complaint_about((folder / file.path).string(), message);
    const std::string expected = expected_complaint(file);
    if (expected.empty()) {
      EXPECT_EQ(complaint, "");
      nets += file.kind == "net";
      solvers += file.kind == "solver";
      EXPECT_EQ(file.kind == "net", net.layer_size() > 0);
      EXPECT_EQ(net.layers_size() + net.input_size() + net.input_dim_size(), 0);
      EXPECT_FALSE(solver.has_solver_type());
    } else {
      EXPECT_FALSE(file.parses_somewhere()) << "a published schema reads this file";
      EXPECT_NE(complaint.find(file.path + expected), std::string::npos) << complaint;
      ++refusals;
    }
  }
  EXPECT_EQ(refusals, refused().size());
  EXPECT_GE(nets, 100);
  EXPECT_GE(solvers, 52);
}

/// Types of which nothing is published but their names in these files, and those that need a
/// program of the fork: an interpreter, a video decoder, a server, a compiler of nets.
const std::set<std::string>& without_meaning() {
  static const std::set<std::string> kTypes = {"BernoulliSample",
                                               "BoxData",
                                               "CPMData",
                                               "DetectionLoss",
                                               "DocData",
                                               "ImageLabelmapData",
                                               "InnerDistance",
                                               "LS",
                                               "LabelsequenceAccuracy",
                                               "MTriangularLoss",
                                               "Python",
                                               "RBMInnerProduct",
                                               "RemoteData",
                                               "SaliencyPooling",
                                               "SimpleCrop",
                                               "SparseData",
                                               "SparseInnerProduct",
                                               "TRT",
                                               "VideoData"};
  return kTypes;
}

TEST(WildFilesTest, HaveLayersOfKnownTypes) {
  const std::filesystem::path folder = test::shared_path("wild");
  const std::vector<PublishedFile> files = test::published_files(folder);
  if (files.empty()) {
    GTEST_SKIP() << "needs " << folder << ": set CREMA_SHARED_DIR";
  }
  const Registry& registry = Registry::instance();
  int layers = 0;
  for (const PublishedFile& file : files) {
    NetParameter net;
    if (file.kind != "net" || !complaint_about((folder / file.path).string(), net).empty())
      continue;
    for (const LayerParameter& layer : net.layer()) {
      layers += registry.has(layer.type());
      EXPECT_TRUE(registry.has(layer.type()) || without_meaning().contains(layer.type()))
          << file.path << ": layer '" << layer.name() << "' has type " << layer.type();
    }
  }
  EXPECT_GE(layers, 3000);
}

}  // namespace
}  // namespace crema
