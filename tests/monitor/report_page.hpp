// What tests look for in pages of reports.
#pragma once

#include <google/protobuf/struct.pb.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "monitor/report/run_files.hpp"

namespace crema::test {

/// Without the page in the message.
inline ::testing::AssertionResult has(const std::string& page, const std::string& part) {
  if (page.find(part) != std::string::npos) return ::testing::AssertionSuccess() << part;
  return ::testing::AssertionFailure() << part << " is missing";
}

/// The data of the script.
inline google::protobuf::Struct data_of(const std::string& page) {
  constexpr std::string_view kBegin = "id=\"curves-data\">";
  const size_t begin = page.find(kBegin);
  google::protobuf::Struct data;
  if (begin == std::string::npos) return data;
  const size_t end = page.find("</script>", begin);
  parse_json(page.substr(begin + kBegin.size(), end - begin - kBegin.size()), data);
  return data;
}

struct DrawnData {
  std::vector<double> iterations, values;
};
inline DrawnData line_of(const google::protobuf::Struct& data, const std::string& chart, int line) {
  DrawnData drawn;
  for (const auto& one : data.fields().at("charts").list_value().values()) {
    const auto& fields = one.struct_value().fields();
    if (fields.at("id").string_value() != chart) continue;
    const auto& of = fields.at("lines").list_value().values(line).struct_value().fields();
    double at = 0;
    for (const auto& delta : of.at("x").list_value().values())
      drawn.iterations.push_back(at += delta.number_value());
    for (const auto& value : of.at("y").list_value().values())
      drawn.values.push_back(value.number_value());
  }
  return drawn;
}

}  // namespace crema::test
