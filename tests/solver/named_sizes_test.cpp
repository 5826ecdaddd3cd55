// Files of names and sizes, compared with the images of the data: by names, and by ids of COCO data
// sets.
#include "solver/named_sizes.hpp"

#include <gtest/gtest.h>

#include "support/annotated.hpp"
#include "support/expect_error.hpp"
#include "support/needs.hpp"
#include "support/net_test.hpp"

namespace crema {
namespace {

using Names = std::vector<std::string>;

class NamedSizes : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::kBuiltWithOpenCv) GTEST_SKIP() << "needs OpenCV: configure with CREMA_OPENCV=ON";
  }

  /// Compares the names of a file with a database of the images.
  void check(const Names& images, const Names& names) {
    test::Records records =
        test::annotated_records({images.size(), test::boxed_rectangle(4, 4, {0, 0, 2, 2})});
    for (size_t i = 0; i < images.size(); ++i) records[i].first += "_" + images[i] + ".jpg";
    const std::string database = folder_ / text("db", databases_++);
    test::write_database(database, records);
    std::string lines;
    for (const std::string& name : names) lines += name + " 4 4\n";
    Context context;
    const Net net(
        test::net_param(text(
            "layer { name: 'data' type: 'AnnotatedData' top: 'data' top: 'label' data_param { "
            "source: '",
            database, "' backend: LMDB batch_size: 1 } }\n",
            "layer { name: 'found' type: 'Input' top: 'found' input_param { shape { dim: 1 dim: 1 "
            "dim: 1 dim: 7 } } }\n",
            "layer { name: 'map' type: 'DetectionEvaluate' bottom: 'found' bottom: 'label' "
            "top: 'map' detection_evaluate_param { num_classes: 2 name_size_file: '",
            folder_.write("sizes.txt", lines), "' } }")),
        context, {.phase = Phase::test});
    check_named_sizes(net);
  }

  test::ScratchFolder folder_;
  int databases_ = 0;
};

TEST_F(NamedSizes, NamesAreThoseOfTheImages) {
  EXPECT_NO_THROW(check({"a", "in/b"}, {"a", "b"}));
  EXPECT_NO_THROW(check({"000005", "000007"}, {"000005", "000007"}));
  expect_error(
      [&] {
        check({"a", "b"}, {"b", "a"});
      },
      {"layer 'map' (DetectionEvaluate)", "image 1 is 'b' there, and 'a'"});
  expect_error([&] { check({"a_1", "a_2"}, {"1", "a_2"}); }, {"image 1 is '1' there, and 'a_1'"});
  // The zeros show that these are no ids.
  expect_error(
      [&] {
        check({"000005", "000007"}, {"000009", "000012"});
      },
      {"image 1 is '000009' there, and '000005'"});
}

// Only file names of MS COCO hold the ids of their images.
TEST_F(NamedSizes, IdsSayNothingOfOtherNames) {
  EXPECT_NO_THROW(check({"a", "b", "c"}, {"7", "9", "12"}));
  EXPECT_NO_THROW(check({"x_1", "x_2", "x_3"}, {"1", "2", "4"}));
  EXPECT_NO_THROW(check({"1", "10", "2"}, {"1", "2", "3"}));
  EXPECT_NO_THROW(check({"a", "000000000139"}, {"7", "139"}));
  EXPECT_NO_THROW(check({"000000000139", "000000000285"}, {"1", "2"}));
}

TEST_F(NamedSizes, IdsOfMsCocoAreThoseOfTheImages) {
  EXPECT_NO_THROW(check({"000000000139", "000000000285"}, {"139", "285"}));
  EXPECT_NO_THROW(check({"COCO_val2014_000000000042", "x"}, {"42", "x"}));
  EXPECT_NO_THROW(check({"COCO_val2014_000000000042"}, {"000000000042"}));
  expect_error(
      [&] {
        check({"000000000139", "000000000285"}, {"139", "632"});
      },
      {"image 2 is '632' there, and '000000000285'"});
}

}  // namespace
}  // namespace crema
