#include "data/boxes/label_map.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "model/text_format.hpp"
#include "proto/detection.pb.h"
#include "support/expect_error.hpp"
#include "support/temp_folder.hpp"

namespace crema::test {
namespace {

LabelNames names_of(const std::string& text) {
  LabelMap map;
  parse_text_proto(text, "text", map);
  return {map, "labels.prototxt"};
}

TEST(LabelMap, NamesOfLabels) {
  const TempFolder folder;
  std::ofstream(folder.path("labels.prototxt")) << R"(
item { name: "none_of_the_above" label: 0 display_name: "background" }
item { name: "person" label: 15 }
item { name: "cat" label: 8 display_name: "Cat" })";
  const LabelNames names = LabelNames::read(folder.path("labels.prototxt"));
  EXPECT_EQ(names.name(15), "person");
  EXPECT_EQ(names.display_name(15), "person");
  EXPECT_EQ(names.display_name(8), "Cat");
  EXPECT_EQ(names.label("cat"), 8);
  EXPECT_EQ(names.find("dog"), std::nullopt);
  EXPECT_TRUE(names.has(0));
  EXPECT_FALSE(names.has(1));
  EXPECT_THAT(names.labels(), testing::ElementsAre(0, 8, 15));
}

TEST(LabelMap, WhatIsMissing) {
  const LabelNames names = names_of("item { name: 'cat' label: 8 } item { name: 'dog' label: 9 }");
  expect_error([&] { names.name(3); }, {"labels.prototxt", "no label 3"});
  expect_error([&] { names.label("catt"); }, {"no class 'catt'", "cat"});
}

TEST(LabelMap, FindsByNamesForDisplayAndChecksLabels) {
  const LabelNames names = names_of(
      "item { name: 'n01' label: 1 display_name: 'dog' } item { name: 'n02' label: 4 "
      "display_name: 'cat' } item { name: 'n03' label: 2 display_name: 'cat' }");
  EXPECT_EQ(names.find_displayed("n02"), 4);
  EXPECT_EQ(names.find_displayed("dog"), 1);
  EXPECT_EQ(names.find_displayed("cat"), std::nullopt);  // of two
  names.check(2);
  expect_error([&] { names.check(3); }, {"label 3", "labels.prototxt", "3 labels from 1 to 4"});
  LabelNames().check(99);
  EXPECT_TRUE(LabelNames().empty());
}

TEST(LabelMap, WrongMaps) {
  expect_error([] { LabelNames(LabelMap(), "labels.prototxt"); }, {"labels.prototxt", "no item"});
  expect_error([] { names_of("item { name: 'a' label: 1 } item { name: 'b' }"); },
               {"item 2", "no label"});
  expect_error([] { names_of("item { label: 1 }"); }, {"item 1", "label 1", "no name"});
  expect_error([] { names_of("item { name: 'a' label: -1 }"); }, {"'a'", "label -1"});
  expect_error([] { names_of("item { name: 'a' label: 1 } item { name: 'b' label: 1 }"); },
               {"item 2 'b'", "label 1", "'a'"});
  expect_error([] { names_of("item { name: 'a' label: 1 } item { name: 'a' label: 2 }"); },
               {"item 2 'a'", "label 2", "label 1 already"});
  expect_error([] { LabelNames::read("/nowhere/labels.prototxt"); }, {"/nowhere/labels.prototxt"});
}

}  // namespace
}  // namespace crema::test
