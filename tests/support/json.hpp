// JSON as it is read by another program than ours: the reader of protocol buffers.
#pragma once

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace crema::test {

/// A value of a JSON text, null and a failure of the test for what is none.
class Json {
 public:
  explicit Json(const std::string& text) {
    const auto status = google::protobuf::util::JsonStringToMessage(text, &value_);
    EXPECT_TRUE(status.ok()) << status.ToString() << " in " << text.substr(0, 300);
  }
  explicit Json(google::protobuf::Value value) : value_(std::move(value)) {}

  bool has(const std::string& key) const { return value_.struct_value().fields().count(key) != 0; }
  Json operator[](const std::string& key) const {
    if (!has(key)) return Json(google::protobuf::Value());
    return Json(value_.struct_value().fields().at(key));
  }
  std::vector<Json> items() const {
    std::vector<Json> all;
    for (const auto& value : value_.list_value().values()) all.emplace_back(value);
    return all;
  }
  double number() const { return value_.number_value(); }
  std::string string() const { return value_.string_value(); }

 private:
  google::protobuf::Value value_;
};

}  // namespace crema::test
