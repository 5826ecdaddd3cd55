// Backslashes, comments of other languages and strange bytes in prototxts.
#include <gtest/gtest.h>

#include "model/text_format.hpp"
#include "proto/net.pb.h"

namespace crema {
namespace {

std::string complaint(const std::string& text) {
  NetParameter net;
  try {
    parse_text_proto(text, "net.prototxt", net);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

testing::AssertionResult says(const std::string& text, const std::string& part) {
  const std::string said = complaint(text);
  if (said.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "'" << part << "' is missing in: " << said;
}

TEST(TextPaths, NameTheBackslashAndTheWayOut) {
  const auto source = [](const std::string& path) {
    return "layer { type: 'Data' data_param { source: " + path + " batch_size: 1 } }";
  };
  const std::string advice =
      "; a backslash begins an escape sequence: for one of a path write / or \\\\, as in ";
  EXPECT_TRUE(
      says(source(R"("D:\caffe\data\mnist_lmdb")"), advice + "\"D:/caffe/data/mnist_lmdb\""));
  EXPECT_TRUE(says(source(R"('D:\caffe\data')"), advice + "'D:/caffe/data'"));
  EXPECT_TRUE(says(source(R"("C:\Users\me")"), advice + "\"C:/Users/me\""));
  EXPECT_TRUE(says(source(R"("C:\xml\me")"), advice + "\"C:/xml/me\""));
  EXPECT_TRUE(says(source(R"("C:\\good\daten")"), advice + "\"C:/good/daten\""));
  EXPECT_TRUE(says("# \"a\nname: 'a' layer { data_param { source: \"E:\\data\" } }",
                   advice + "\"E:/data\""));
  EXPECT_TRUE(says("name: \"C:\\data\\\"\nlayer { }", advice + "\"C:/data/"));
  EXPECT_TRUE(says("name: \"C:\\", advice + "\"C:/\""));
  // A text without a backslash that does not end.
  EXPECT_FALSE(says("name: \"C:/data\nlayer { }", "backslash"));
}

TEST(TextPaths, NameTheMarkOfComments) {
  const std::string slashes = "'//' begins no comment here; write '#' in its place";
  EXPECT_TRUE(says("// a net\nname: 'x'", "net.prototxt:1:1: " + slashes));
  EXPECT_TRUE(says("name: 'x' // a net\n", slashes));
  EXPECT_TRUE(says("layer {\n  name: 'x'\n  // type\n  type: 'ReLU' }",
                   "net.prototxt:3:3: layer 'x': " + slashes));
  EXPECT_TRUE(says("layer { convolution_param { num_output: 5 // five\n } }", slashes));
  EXPECT_TRUE(says("/* a net */\nname: 'x'",
                   "'/*' is no mark of a comment here; write '#' before each line of it"));
  EXPECT_EQ(complaint("# a // b /* c */\nname: 'a//b'"), "");
}

TEST(TextPaths, MessagesHoldNoControlCharactersAndNoBytesThatAreNoUtf8) {
  // A terminal obeys ESC [ 2 J; Latin 1 has no UTF-8.
  const std::string said = complaint("layer { name: 'a\\033[2J\\n\\xe9' tipe: 'b\x1b\xe9' }");
  EXPECT_EQ(said.find('\x1b'), std::string::npos) << said;
  EXPECT_EQ(said.find('\xe9'), std::string::npos) << said;
  EXPECT_NE(said.find("layer 'a\\x1b[2J\\n\\xe9': unknown field 'tipe'"), std::string::npos)
      << said;
  // The line of the text, in which each strange byte takes a column.
  EXPECT_NE(said.find("tipe: 'b\xEF\xBF\xBD\xEF\xBF\xBD' }\n    "), std::string::npos) << said;
}

}  // namespace
}  // namespace crema
