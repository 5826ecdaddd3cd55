// The table of settings_effect_test.cpp for OnnxOperator: each field of its settings has an effect
// on one of its nets.
#include "settings_effect.hpp"

namespace crema::test {

void add_operator_trials(std::vector<SettingsTrial>& all) {
  const std::string field = "OnnxOperatorParameter.";
  all.push_back({.field = field + "op_type", .set = "op_type: 'Abs'"});
  all.push_back({.field = field + "domain",
                 .set = "domain: 'ai.onnx.ml'",
                 .error = "is no operator that Crema knows"});
  all.push_back({.field = field + "opset", .set = "opset: 11"});
  all.push_back({.field = field + "attribute", .set = "attribute { name: 'axis' i: 1 type: INT }"});
  all.push_back({.field = field + "top_type", .because = "for people and exporters"});
  all.push_back(
      {.field = field + "input", .set = "input: 1 input: 0", .base = "OnnxOperator of two inputs"});
  all.push_back(
      {.field = field + "output", .set = "output: 1", .base = "OnnxOperator of several outputs"});
  all.push_back({.field = field + "constant",
                 .set = "constant { input: 1 value { data_type: 1 float_data: 0.2 } }",
                 .base = "OnnxOperator with bounds"});
}

}  // namespace crema::test
