// Files of models: values in files beside them, and what damaged and hostile ones are refused with.
#include "onnx/model_file.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <functional>

#include "crema/net.hpp"
#include "onnx/importing/import.hpp"
#include "support/database.hpp"
#include "support/expect_error.hpp"
#include "support/temp_folder.hpp"

namespace crema::onnx {
namespace {

namespace fs = std::filesystem;

class ModelFile : public ::testing::Test {
 protected:
  static constexpr int kColumns = 400;

  /// y = x * w + c, with w of 2 x 400 values and c a single one.
  static ModelProto model() {
    ModelProto made;
    made.set_ir_version(8);
    made.add_opset_import()->set_version(17);
    GraphProto& graph = *made.mutable_graph();
    graph.set_name("g");
    const auto end = [](const char* name, ValueInfoProto& info) {
      info.set_name(name);
      auto& tensor = *info.mutable_type()->mutable_tensor_type();
      tensor.set_elem_type(TensorProto::FLOAT);
      tensor.mutable_shape()->add_dim()->set_dim_value(2);
      tensor.mutable_shape()->add_dim()->set_dim_value(kColumns);
    };
    end("x", *graph.add_input());
    end("y", *graph.add_output());
    const auto constant = [&](const char* name, std::vector<int64_t> dims, float first) {
      TensorProto& tensor = *graph.add_initializer();
      tensor.set_name(name);
      tensor.set_data_type(TensorProto::FLOAT);
      int64_t count = 1;
      for (const int64_t dim : dims) {
        tensor.add_dims(dim);
        count *= dim;
      }
      std::vector<float> values(static_cast<size_t>(count));
      for (size_t i = 0; i < values.size(); ++i) values[i] = first + static_cast<float>(i);
      tensor.set_raw_data(
          std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)));
    };
    constant("w", {2, kColumns}, 1);
    constant("c", {1}, 5);
    const auto node = [&](const char* op, const char* a, const char* b, const char* to) {
      NodeProto& added = *graph.add_node();
      added.set_op_type(op);
      added.set_name(to);
      added.add_input(a);
      added.add_input(b);
      added.add_output(to);
    };
    node("Mul", "x", "w", "xw");
    node("Add", "xw", "c", "y");
    return made;
  }

  static StringStringEntryProto& entry(const char* key, TensorProto& tensor) {
    for (StringStringEntryProto& one : *tensor.mutable_external_data())
      if (one.key() == key) return one;
    StringStringEntryProto& added = *tensor.add_external_data();
    added.set_key(key);
    return added;
  }
  std::string path(const char* name) const { return folder_.path(name); }
  /// Writes the model with "w" in net.onnx.data; `change` gets its message.
  void write_apart(const std::function<void(TensorProto& w)>& change = {}) const {
    write_model(path("net.onnx"), model(), 1500);
    ModelProto written;
    ASSERT_TRUE(written.ParseFromString(test::read_file(path("net.onnx"))));
    TensorProto& w = *written.mutable_graph()->mutable_initializer(0);
    ASSERT_EQ(w.data_location(), TensorProto::EXTERNAL);
    if (change) change(w);
    folder_.write("net.onnx", written.SerializeAsString());
  }
  void expect_refused(std::initializer_list<std::string_view> parts) const {
    expect_error([&] { read_model(path("net.onnx")); }, parts);
  }

  TempFolder folder_;
};

TEST_F(ModelFile, LargeTensorsLieBesideTheModel) {
  write_apart();
  EXPECT_EQ(fs::file_size(path("net.onnx.data")), 2U * kColumns * sizeof(float));
  const ModelProto read = read_model(path("net.onnx"));
  EXPECT_EQ(read.SerializeAsString(), model().SerializeAsString());
  EXPECT_EQ(import_file(path("net.onnx")).outputs.size(), 1U);
  // The folder may have moved.
  fs::create_directory(path("moved"));
  fs::rename(path("net.onnx"), path("moved/net.onnx"));
  fs::rename(path("net.onnx.data"), path("moved/net.onnx.data"));
  EXPECT_EQ(read_model(path("moved/net.onnx")).SerializeAsString(), model().SerializeAsString());
}

TEST_F(ModelFile, OtherFilesAreReadInTheFolderOfTheModelAlone) {
  const TempFolder outside;
  const std::string secret = outside.write("secret.data", std::string(4000, 's'));
  write_apart([&](TensorProto& w) { entry("location", w).set_value(secret); });
  expect_refused({"net.onnx", "'w'", "outside of the model's folder"});
  for (const char* location : {"../secret.data", "a/../../secret.data", "..", "./../secret.data"}) {
    write_apart([&](TensorProto& w) { entry("location", w).set_value(location); });
    expect_refused({"'w'", "outside"});
  }
  fs::create_symlink(secret, path("link.data"));
  write_apart([](TensorProto& w) { entry("location", w).set_value("link.data"); });
  expect_refused({"'w'", "outside"});
  fs::create_directory_symlink(fs::path(secret).parent_path(), path("folder"));
  write_apart([](TensorProto& w) { entry("location", w).set_value("folder/secret.data"); });
  expect_refused({"'w'", "outside"});
}

TEST_F(ModelFile, OtherFilesHaveToHoldTheValues) {
  const auto with = [&](const char* key, const std::string& value,
                        std::initializer_list<std::string_view> parts) {
    write_apart([&](TensorProto& w) { entry(key, w).set_value(value); });
    expect_refused(parts);
  };
  with("location", "", {"'w'", "not named"});
  with("location", "none.data", {"'w'", "none.data", "copy that file together with the model"});
  with("location", ".", {"'w'"});
  with("offset", "-1", {"'w'", "offset '-1'"});
  with("offset", "1e3", {"'w'", "offset '1e3'"});
  with("offset", "9223372036854775807", {"'w'", "are not there", "3200 bytes"});
  with("offset", "18446744073709551617", {"'w'", "offset"});
  with("offset", "1", {"'w'", "are not there"});
  with("length", "4", {"'w'", "3200 bytes", "is 4"});
  with("length", "9223372036854775807", {"'w'", "9223372036854775807"});
  write_apart([](TensorProto& w) { w.set_dims(1, int64_t{1} << 62); });
  expect_refused({"'w'"});
  write_apart([](TensorProto& w) { w.set_dims(0, -2); });
  expect_refused({"'w'"});
  write_apart([](TensorProto& w) { w.set_data_type(77); });
  expect_refused({"'w'"});
  write_apart();
  fs::resize_file(path("net.onnx.data"), 3199);
  expect_refused({"'w'", "3199 bytes"});
  // A model in memory has no folder.
  expect_error([&] { parse_model(test::read_file(path("net.onnx")), "bytes"); }, {"bytes", "'w'"});
}

TEST_F(ModelFile, CutFilesAreRefused) {
  const std::string whole = model().SerializeAsString();
  int refused = 0;
  for (size_t length = 0; length < whole.size(); length += length < 200 ? 1 : 37) {
    folder_.write("net.onnx", whole.substr(0, length));
    try {
      import_file(path("net.onnx"));
      ADD_FAILURE() << "a model cut at " << length << " of " << whole.size();
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("net.onnx"), std::string::npos) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, 200);
}

TEST_F(ModelFile, FlippedBitsAreReadOrRefused) {
  const std::string whole = model().SerializeAsString();
  int refused = 0;
  for (size_t bit = 0; bit < whole.size() * 8; bit += bit < 2000 ? 1 : 61) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    try {
      import_model(parse_model(damaged, "damaged.onnx"));
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 100);
}

TEST_F(ModelFile, OtherFilesAreNoModels) {
  folder_.write("net.onnx", "name: 'net'\nlayer { name: 'x' type: 'Input' }\n");
  expect_refused({"net.onnx", "is no model of ONNX", "text"});
  folder_.write("net.onnx", "");
  expect_refused({"net.onnx"});
  expect_error([&] { read_model(path("none.onnx")); }, {"none.onnx"});
  fs::create_directory(path("folder.onnx"));
  expect_error([&] { read_model(path("folder.onnx")); }, {"folder.onnx"});
  ModelProto empty;
  empty.set_ir_version(8);
  folder_.write("net.onnx", empty.SerializeAsString());
  expect_refused({"net.onnx", "graph"});
}

TEST_F(ModelFile, SizesBeyondAllMemoryAreRefused) {
  for (const int64_t size : {int64_t{1} << 62, INT64_MAX, int64_t{-1}, int64_t{1} << 40}) {
    SCOPED_TRACE(size);
    ModelProto hostile = model();
    hostile.mutable_graph()->mutable_initializer(0)->set_dims(0, size);
    expect_error([&] { import_model(hostile); }, {"'w'"});
    // As the size of a constant that an operator makes.
    hostile = model();
    NodeProto& node = *hostile.mutable_graph()->mutable_node(0);
    node.set_op_type("Expand");
    node.set_input(1, "sizes");
    TensorProto& sizes = *hostile.mutable_graph()->add_initializer();
    sizes.set_name("sizes");
    sizes.set_data_type(TensorProto::INT64);
    sizes.add_dims(3);
    for (const int64_t each : {size, int64_t{2}, int64_t{kColumns}}) sizes.add_int64_data(each);
    expect_error(
        [&] {
          const ImportedNet imported = import_model(hostile);
          Context context;
          Net(imported.net, context, {.phase = Phase::test});
        },
        {});
  }
}

TEST_F(ModelFile, OldFilesStayWhereWritingFails) {
  write_model(path("net.onnx"), model());
  const std::string before = test::read_file(path("net.onnx"));
  fs::create_directory(path("net.onnx.data"));
  expect_error([&] { write_model(path("net.onnx"), model(), 1500); }, {"net.onnx.data"});
  EXPECT_EQ(test::read_file(path("net.onnx")), before);
}

}  // namespace
}  // namespace crema::onnx
