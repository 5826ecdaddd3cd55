#include "crema/error.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace crema {
namespace {

TEST(PositionTest, LeavesOutWhatIsUnknown) {
  EXPECT_EQ((Position{"a.prototxt", 12, 3}.str()), "a.prototxt:12:3");
  EXPECT_EQ((Position{"a.prototxt", 12, 0}.str()), "a.prototxt:12");
  EXPECT_EQ((Position{"a.prototxt", 0, 3}.str()), "a.prototxt");
  EXPECT_EQ(Position{}.str(), "");
  EXPECT_FALSE(Position{}.known());
}

TEST(ErrorTest, ConcatenatesItsArguments) {
  const Error error("kernel ", 7, " exceeds the padded input ", 5, "; add pad");
  EXPECT_STREQ(error.what(), "kernel 7 exceeds the padded input 5; add pad");
  EXPECT_EQ(error.message(), "kernel 7 exceeds the padded input 5; add pad");
  EXPECT_FALSE(error.position().known());
  EXPECT_EQ(error.layer(), "");
}

TEST(ErrorTest, EscapesControlCharactersOfNamesAndValues) {
  Error error("data source 'C:\train\new' does not exist\n  see \x1b[2J");
  error.in_layer("a\nb\xE9", "Da\rta").in_record("k\t").at({"n\n.prototxt", 1, 0});
  EXPECT_STREQ(
      error.what(),
      "n\\n.prototxt:1: layer 'a\\nb\\xe9' (Da\\rta): data source 'C:\\train\\new' does not "
      "exist\n  see \\x1b[2J (record 'k\\t')");
  EXPECT_EQ(error.message(), "data source 'C:\\train\\new' does not exist\n  see \\x1b[2J");
}

TEST(ErrorTest, KeepsThePathThatWasAddedFirst) {
  Error error("cannot open 'a\nb'");
  EXPECT_EQ(error.path(), "");
  error.about("").about("a\nb").about("c");
  EXPECT_EQ(error.path(), "a\nb") << "as it was named, without escapes";
  EXPECT_STREQ(error.what(), "cannot open 'a\\nb'");
}

TEST(ErrorTest, PutsPlaceAndLayerBeforeTheMessage) {
  Error error("kernel 7 exceeds the padded input 5");
  error.in_layer("conv1", "Convolution");
  EXPECT_STREQ(error.what(), "layer 'conv1' (Convolution): kernel 7 exceeds the padded input 5");
  error.at({"train_val.prototxt", 12});
  EXPECT_STREQ(
      error.what(),
      "train_val.prototxt:12: layer 'conv1' (Convolution): kernel 7 exceeds the padded input 5");
  EXPECT_EQ(error.message(), "kernel 7 exceeds the padded input 5");
}

TEST(ErrorTest, TheNetStandsBeforeTheLayer) {
  Error error("too wide");
  error.in_layer("conv1", "Convolution").in_net("TEST net #1").in_net("TEST net #0");
  error.of_sample(3).at({"a.prototxt", 2, 0});
  EXPECT_STREQ(error.what(), "a.prototxt:2: TEST net #1: layer 'conv1' (Convolution): too wide");
  EXPECT_EQ(error.layer(), "conv1");
  EXPECT_EQ(error.sample(), 3);
  EXPECT_EQ(error.message(), "too wide");
}

TEST(ErrorTest, KeepsWhatWasAddedClosestToTheCause) {
  Error error("bad");
  error.at({"inner.prototxt", 1}).at({"outer.prototxt", 2});
  error.in_layer("inner", "Scale").in_layer("outer", "Net");
  EXPECT_STREQ(error.what(), "inner.prototxt:1: layer 'inner' (Scale): bad");
}

TEST(ErrorTest, AnUnknownPlaceDoesNotBlockALaterOne) {
  Error error("bad");
  error.at({}).at({"net.prototxt", 3});
  EXPECT_STREQ(error.what(), "net.prototxt:3: bad");
}

TEST(ErrorTest, ALayerWithoutTypeHasNoParentheses) {
  Error error("bad");
  error.in_layer("conv1", "");
  EXPECT_STREQ(error.what(), "layer 'conv1': bad");
}

TEST(ErrorTest, ContextCanBeAddedWhileItUnwinds) {
  try {
    try {
      throw Error("count ", 3, " is odd");
    } catch (Error& error) {
      error.in_layer("ip", "InnerProduct");
      throw;
    }
    FAIL() << "the Error is lost";
  } catch (const std::exception& error) {
    EXPECT_STREQ(error.what(), "layer 'ip' (InnerProduct): count 3 is odd");
  }
}

TEST(NearestNameTest, FindsWhatWasMeant) {
  const std::vector<std::string> known = {"pad",    "kernel_size", "stride",
                                          "pool",   "num_output",  "weight_filler",
                                          "engine", "bias_filler", "global_pooling"};
  EXPECT_EQ(nearest_name("kernelsize", known), "kernel_size");    // insertion
  EXPECT_EQ(nearest_name("kernel_sizes", known), "kernel_size");  // deletion
  EXPECT_EQ(nearest_name("kernal_size", known), "kernel_size");   // substitution
  EXPECT_EQ(nearest_name("kernel_szie", known), "kernel_size");   // swap
  EXPECT_EQ(nearest_name("num_ouptut", known), "num_output");
  EXPECT_EQ(nearest_name("padd", known), "pad");
  EXPECT_EQ(nearest_name("pda", known), "pad");
  EXPECT_EQ(nearest_name("pad", known), "pad");
}

TEST(NearestNameTest, PrefersAWrongCaseToAWrongLetter) {
  EXPECT_EQ(nearest_name("Relu", {"Selu", "ReLU"}), "ReLU");
  EXPECT_EQ(nearest_name("lmdb", {"lmda", "LMDB"}), "LMDB");
  EXPECT_EQ(nearest_name("max", {"may", "MAX", "Max"}), "Max");
}

TEST(NearestNameTest, SaysNothingWhenNothingIsNear) {
  EXPECT_EQ(nearest_name("bottleneck", {"pad", "kernel_size", "stride"}), "");
  EXPECT_EQ(nearest_name("ab", {"cd"}), "");
  EXPECT_EQ(nearest_name("a", {"b"}), "");
  EXPECT_EQ(nearest_name("", {"pad"}), "");
  EXPECT_EQ(nearest_name("pad", {}), "");
}

TEST(NearestNameTest, TheFirstOfEquallyNearNamesWins) {
  EXPECT_EQ(nearest_name("pad_x", {"pad_h", "pad_w"}), "pad_h");
}

}  // namespace
}  // namespace crema
