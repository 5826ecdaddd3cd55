// HDF5Data and HDF5Output.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "crema/net.hpp"
#include "model/hdf5_file.hpp"
#include "support/database.hpp"
#include "support/hdf5_arrays.hpp"
#include "support/needs.hpp"
#include "support/net_test.hpp"
#include "support/source_run.hpp"

namespace crema {
namespace {

using test::add_hdf5;
using test::Hdf5Kind;
using test::LayerCase;
using test::LayerRun;
using test::next_values;
using test::source_of;
using testing::ElementsAre;

class Hdf5Layers : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::kBuiltWithHdf5) GTEST_SKIP() << "needs HDF5: configure with CREMA_HDF5=ON";
  }
  /// A file whose rows count on from `first`: data are (row, row + 0.5), labels the rows.
  std::string file(const std::string& name, int first, int rows) {
    std::vector<double> data, labels;
    for (int row = first; row < first + rows; ++row) {
      data.insert(data.end(), {double(row), row + 0.5});
      labels.push_back(row);
    }
    add_hdf5(folder_ / name, "data", Hdf5Kind::f32, {rows, 2, 1}, data);
    add_hdf5(folder_ / name, "label", Hdf5Kind::i64, {rows}, labels);
    return folder_ / name;
  }
  LayerCase layer(const std::string& list, const std::string& settings,
                  const std::string& more = "") {
    const std::string source = folder_.write("list.txt", list);
    return {.layer = text("layer { type: 'HDF5Data' top: 'data' top: 'label' ", more,
                          " hdf5_data_param { source: '", source, "' ", settings, " } }")};
  }
  /// Three files of 3, 4 and 1 rows.
  std::string three_files() {
    return file("a.h5", 0, 3) + "\n\n  " + file("b.h5", 3, 4) + "\r\n" + file("c.h5", 7, 1) + "\n";
  }
  test::ScratchFolder folder_;
};

TEST_F(Hdf5Layers, BatchesCrossTheBordersOfFilesAndWrap) {
  LayerRun run(layer(three_files(), "batch_size: 5"));
  run.forward();
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{5, 2, 1}));
  EXPECT_EQ(run.top_blob(1).shape(), (Shape{5}));
  EXPECT_THAT(run.top(0), ElementsAre(0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5));
  EXPECT_THAT(run.top(1), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(next_values(run, 2, 1), ElementsAre(5, 6, 7, 0, 1, 2, 3, 4, 5, 6));
  EXPECT_EQ(source_of(run).record_key(4), folder_ / "b.h5" + ", row 3");
  EXPECT_EQ(source_of(run).cursor(), (RecordCursor{1, 7}));
}

TEST_F(Hdf5Layers, ABatchMayBeLargerThanAllFiles) {
  LayerRun run(layer(file("a.h5", 0, 3), "batch_size: 8"));
  EXPECT_THAT(next_values(run, 1, 1), ElementsAre(0, 1, 2, 0, 1, 2, 0, 1));
}

TEST_F(Hdf5Layers, ShuffleDrawsFilesAndTheRowsOfEach) {
  const LayerCase shuffled = layer(three_files(), "batch_size: 8 shuffle: true");
  LayerRun run(shuffled);
  std::set<std::vector<double>> orders;
  std::set<double> firsts;
  for (int epoch = 0; epoch < 50; ++epoch) {
    std::vector<double> rows = next_values(run, 1, 1);
    // Rows of one file follow each other.
    const auto file_of = [](double row) { return row < 3 ? 0 : row < 7 ? 1 : 2; };
    int changes = 0;
    for (size_t i = 1; i < rows.size(); ++i) changes += file_of(rows[i]) != file_of(rows[i - 1]);
    EXPECT_EQ(changes, 2);
    orders.insert(rows);
    firsts.insert(rows[0]);
    std::sort(rows.begin(), rows.end());
    EXPECT_THAT(rows, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  }
  EXPECT_GT(orders.size(), 40u);
  EXPECT_EQ(firsts.size(), 8u);
  LayerCase other = shuffled;
  other.seed = 2;
  LayerRun again(shuffled), differs(other);
  LayerRun first(shuffled);
  EXPECT_EQ(next_values(again, 3), next_values(first, 3));
  EXPECT_NE(next_values(differs, 3), next_values(again, 3));
}

TEST_F(Hdf5Layers, TracesHaveItsRowsAndFiles) {
  const auto spans = test::spans_of(layer(three_files(), "batch_size: 8"), 3);
  EXPECT_GE(spans.count(SpanKind::read) > 0 ? spans.at(SpanKind::read) : 0, 24);
  EXPECT_GE(spans.count(SpanKind::decode) > 0 ? spans.at(SpanKind::decode) : 0, 9);
}

TEST_F(Hdf5Layers, ResumesAtItsCursor) {
  const std::string list = three_files();
  test::expect_resumes(layer(list, "batch_size: 3"), 4);
  for (const int batches : {0, 1, 5, 8}) {
    test::expect_resumes(layer(list, "batch_size: 3 shuffle: true"), batches);
  }
}

TEST_F(Hdf5Layers, DoublesReachNetsInF64) {
  add_hdf5(folder_ / "d.h5", "data", Hdf5Kind::f64, {2}, {0.1, 0.2});
  add_hdf5(folder_ / "d.h5", "label", Hdf5Kind::u8, {2, 2}, {1, 2, 3, 255});
  LayerRun run(layer(folder_ / "d.h5", "batch_size: 2"), {.dtype = DType::f64});
  run.forward();
  EXPECT_THAT(run.top(0), ElementsAre(0.1, 0.2));
  EXPECT_THAT(run.top(1), ElementsAre(1, 2, 3, 255));
}

TEST_F(Hdf5Layers, BooleansAreZeroAndOne) {
  add_hdf5(folder_ / "b.h5", "data", Hdf5Kind::flag, {2, 2}, {1, 0, 0, 1});
  add_hdf5(folder_ / "b.h5", "label", Hdf5Kind::flag, {2}, {1, 0});
  LayerRun run(layer(folder_ / "b.h5", "batch_size: 2"));
  run.forward();
  EXPECT_THAT(run.top(0), ElementsAre(1, 0, 0, 1));
  EXPECT_THAT(run.top(1), ElementsAre(1, 0));
}

TEST_F(Hdf5Layers, SettingsAndFilesThatCannotWorkAreErrors) {
  const std::string good = file("a.h5", 0, 3);
  const auto fails = [&](const LayerCase& wrong, std::initializer_list<std::string_view> words) {
    expect_error([&] { LayerRun{wrong}; }, words);
  };
  fails(layer(good, ""), {"hdf5_data_param has no batch_size"});
  fails(layer(good, "batch_size: 1", "transform_param { scale: 2 }"), {"does not transform"});
  fails({.layer = "layer { type: 'HDF5Data' top: 'data' hdf5_data_param { batch_size: 1 } }"},
        {"no source"});
  fails(layer("\n \n", "batch_size: 1"), {"the list", "is empty"});
  fails({.layer = "layer { type: 'HDF5Data' top: 'data' hdf5_data_param { batch_size: 1 source: "
                  "'no_list.txt' } }"},
        {"cannot open the list 'no_list.txt'"});
  fails(layer(good + "\n" + (folder_ / "missing.h5"), "batch_size: 1"),
        {"list.txt:2", "missing.h5"});
  folder_.write("text.h5", "words\n");
  fails(layer(folder_ / "text.h5", "batch_size: 1"), {"list.txt:1", "not an HDF5 file"});

  const auto bad = [&](const char* name, const Shape& data, const Shape& label) {
    add_hdf5(folder_ / name, "data", Hdf5Kind::f32, data,
             std::vector<double>(static_cast<size_t>(data.count())));
    add_hdf5(folder_ / name, "label", Hdf5Kind::f32, label,
             std::vector<double>(static_cast<size_t>(label.count())));
    return good + "\n" + (folder_ / name);
  };
  fails(layer(bad("counts.h5", {3, 2, 1}, {2}), "batch_size: 1"),
        {"list.txt:2", "3 rows in array 'data' 3x2x1", "2 in 'label' 2"});
  fails(layer(bad("empty.h5", {0, 2, 1}, {0}), "batch_size: 1"), {"list.txt:2", "has no rows"});
  fails(layer(bad("shape.h5", {3, 2, 2}, {3}), "batch_size: 1"),
        {"list.txt:2", "rows of 2x2", "rows of 2x1"});
  fails(layer(bad("scalar.h5", {3, 2, 1}, {}), "batch_size: 1"), {"'label'", "one number"});
  add_hdf5(folder_ / "alone.h5", "data", Hdf5Kind::f32, {1, 2, 1}, {1, 2});
  fails(layer(folder_ / "alone.h5", "batch_size: 1"), {"alone.h5' has no array 'label'"});

  LayerRun run(layer(good, "batch_size: 1"));
  expect_error([&] { source_of(run).set_cursor({0, 3}); }, {"record 3", "3 records"});
}

TEST_F(Hdf5Layers, AFileThatChangesMeanwhileIsAnError) {
  const LayerCase changing = layer(file("a.h5", 0, 3), "batch_size: 1");
  LayerRun run(changing);
  std::filesystem::remove(folder_ / "a.h5");
  file("a.h5", 0, 5);
  expect_error([&] { run.forward(); }, {"'data'", "5x2x1 now", "3 rows of 2x1"});
}

TEST_F(Hdf5Layers, OutputWritesWhatDataReads) {
  const std::string list = folder_.write("list.txt", three_files());
  const std::string out = folder_ / "out.h5";
  const std::string prototxt = text(
      "layer { name: 'in' type: 'HDF5Data' top: 'data' top: 'label' hdf5_data_param { source: '",
      list, "' batch_size: 4 } }",
      "layer { name: 'out' type: 'HDF5Output' bottom: 'data' bottom: 'label' "
      "hdf5_output_param { file_name: '",
      out, "' } }");
  Context context;
  {
    Net net(test::net_param(prototxt), context, {.phase = Phase::test});
    net.forward();
    net.forward();
    EXPECT_FALSE(std::filesystem::exists(out));
  }
  const Hdf5Reader reader(out);
  EXPECT_EQ(reader.shape("data"), (Shape{8, 2, 1}));
  EXPECT_THAT(test::values_of(reader.read("label", DType::f32)),
              ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_EQ(reader.read("data", DType::f32).at(15), 7.5);
}

TEST_F(Hdf5Layers, OutputTakesBatchesOfAnySizeAndF64) {
  const std::string out = folder_ / "out.h5";
  {
    LayerRun run(
        {.layer = text("layer { type: 'HDF5Output' hdf5_output_param { file_name: '", out, "' } }"),
         .bottoms = {test::given({1, 2}, {0.1, 0.2}), test::given({1}, {1})},
         .tops = 0},
        {.dtype = DType::f64});
    run.forward();
    run.reshape({test::given({0, 2}, {}), test::given({0}, {})});
    run.forward();
    run.reshape({test::given({2, 2}, {3, 4, 5, 6}), test::given({2}, {7, 8})});
    run.forward();
    EXPECT_FALSE(run.layer().can_propagate(0));
    expect_error(
        [&] {
          run.reshape({test::uniform({2, 2}), test::uniform({3})});
        },
        {"as many rows", "2x2", "3"});
  }
  const Hdf5Reader reader(out);
  EXPECT_THAT(test::values_of(reader.read("data", DType::f64)), ElementsAre(0.1, 0.2, 3, 4, 5, 6));
  EXPECT_THAT(test::values_of(reader.read("label", DType::f64)), ElementsAre(1, 7, 8));
}

TEST_F(Hdf5Layers, OutputErrors) {
  const auto fails = [&](const std::string& settings,
                         std::initializer_list<std::string_view> words) {
    expect_error(
        [&] {
          LayerRun run({.layer = "layer { type: 'HDF5Output' " + settings + " }",
                        .bottoms = {test::uniform({2, 3}), test::uniform({2})},
                        .tops = 0});
        },
        words);
  };
  fails("", {"no file_name"});
  fails("hdf5_output_param { file_name: '" + folder_.path().string() + "' }", {"is a folder"});
  fails("hdf5_output_param { file_name: '" + (folder_ / "none/out.h5") + "' }",
        {"no folder", "create it"});
  // Rows of another shape: what was written is no whole file, and none appears.
  const std::string out = folder_ / "out.h5";
  {
    LayerRun run(
        {.layer = text("layer { type: 'HDF5Output' hdf5_output_param { file_name: '", out, "' } }"),
         .bottoms = {test::uniform({2, 3}), test::uniform({2})},
         .tops = 0});
    run.forward();
    run.reshape({test::uniform({2, 4}), test::uniform({2})});
    expect_error([&] { run.forward(); }, {"rows of 2x4", "2x3"});
    // The rows of the passes before are lost: it does not begin a new file without them.
    run.reshape({test::uniform({2, 3}), test::uniform({2})});
    expect_error([&] { run.forward(); }, {"an earlier pass", "out.h5"});
  }
  EXPECT_FALSE(std::filesystem::exists(out));
}

TEST_F(Hdf5Layers, AnErrorThatEndsTheRunLeavesTheOldFile) {
  const std::string out = folder_.write("out.h5", "the old one");
  const auto write = [&](bool fails) {
    Context context;
    Net net(test::net_param(text(
                "layer { name: 'in' type: 'DummyData' top: 'data' top: 'label' dummy_data_param { "
                "shape { dim: 2 dim: 3 } shape { dim: 2 } } } layer { name: 'out' type: "
                "'HDF5Output' bottom: 'data' bottom: 'label' hdf5_output_param { file_name: '",
                out, "' } }")),
            context);
    net.forward();
    if (fails) throw Error("the run ends here");
  };
  EXPECT_THROW(write(true), Error);
  EXPECT_EQ(test::read_file(out), "the old one");
  EXPECT_FALSE(std::ranges::any_of(
      std::filesystem::directory_iterator(folder_.path()),
      [](const auto& entry) { return entry.path().string().find(".tmp.") != std::string::npos; }));
  write(false);
  EXPECT_EQ(Hdf5Reader(out).shape("data"), (Shape{2, 3}));
}

TEST_F(Hdf5Layers, OutputWarnsOfAFileThatItWillReplace) {
  const std::string out = folder_ / "out.h5";
  const auto warnings = [&] {
    std::vector<std::string> told;
    Context context({.logger = [&](Severity severity, const std::string& text) {
      if (severity == Severity::warning) told.push_back(text);
    }});
    Net net(test::net_param(text(
                "layer { name: 'in' type: 'DummyData' top: 'data' top: 'label' dummy_data_param { "
                "shape { dim: 2 dim: 3 } shape { dim: 2 } } } layer { name: 'out' type: "
                "'HDF5Output' bottom: 'data' bottom: 'label' hdf5_output_param { file_name: '",
                out, "' } }")),
            context);
    for (int pass = 0; pass < 2; ++pass) net.forward();
    return told;
  };
  EXPECT_THAT(warnings(), ElementsAre());
  const std::vector<std::string> told = warnings();
  ASSERT_EQ(told.size(), 1U);
  EXPECT_THAT(told[0], testing::AllOf(testing::HasSubstr("layer 'out'"), testing::HasSubstr(out),
                                      testing::HasSubstr("replace")));
}

}  // namespace
}  // namespace crema
