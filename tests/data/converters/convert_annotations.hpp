// Images, a label map, and the conversion of lists to databases with boxes.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "data/boxes/annotation.hpp"
#include "data/converters/converters.hpp"
#include "data/records/datum.hpp"
#include "proto/detection.pb.h"
#include "support/database.hpp"
#include "support/expect_error.hpp"
#include "support/image_files.hpp"
#include "support/needs.hpp"

namespace crema::test {

class ConvertAnnotations : public testing::Test {
 protected:
  void SetUp() override {
    if (!kBuiltWithOpenCv) GTEST_SKIP() << "needs OpenCV: configure with CREMA_OPENCV=ON";
    folder_.write("images/a.pgm", pgm(10, 20, std::string(200, 'a')));
    folder_.write("images/b.pgm", pgm(40, 20, std::string(800, 'b')));
    options_.root = folder_.path();
    options_.output = folder_ / "db";
    options_.overwrite = true;
    options_.label_map_file = folder_.write(
        "map.prototxt",
        "item { name: 'none' label: 0 display_name: 'background' } item { name: '18' label: 2 "
        "display_name: 'dog' } item { name: 'cat' label: 5 }");
  }
  /// The records of the list converted.
  std::vector<AnnotatedDatum> convert(const std::string& list) {
    options_.list = folder_.write("list.txt", list);
    return convert_list_file();
  }
  std::vector<AnnotatedDatum> convert_list_file() {
    report_ = convert_annotations(options_);
    std::vector<AnnotatedDatum> all;
    keys_.clear();
    for (const auto& [key, value] : read_database(options_.output)) {
      EXPECT_TRUE(is_annotated(value));
      keys_.push_back(key);
      EXPECT_TRUE(all.emplace_back().ParseFromString(value));
    }
    return all;
  }
  void fails(const std::string& list, std::initializer_list<std::string_view> words) {
    expect_error([&] { convert(list); }, words);
  }
  /// label, instance, xmin, ymin, xmax, ymax, difficult of each box.
  static std::vector<std::vector<double>> rows(const AnnotatedDatum& datum) {
    std::vector<std::vector<double>> all;
    for (const LabeledBox& b : boxes_of(datum))
      all.push_back({double(b.label), double(b.instance), b.box.left, b.box.top, b.box.right,
                     b.box.bottom, double(b.difficult)});
    return all;
  }
  std::string object(const std::string& name, const std::string& edges,
                     const std::string& more = "") {
    return text("<object><name>", name, "</name>", more, "<bndbox>", edges, "</bndbox></object>\n");
  }
  static std::string edges(double xmin, double ymin, double xmax, double ymax) {
    return text("<xmin>", xmin, "</xmin><ymin>", ymin, "</ymin><xmax>", xmax, "</xmax><ymax>", ymax,
                "</ymax>");
  }

  ScratchFolder folder_;
  ConvertAnnotationsOptions options_;
  ConvertReport report_;
  std::vector<std::string> keys_;
};

}  // namespace crema::test
