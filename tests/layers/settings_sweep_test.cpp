// The sweep of support/settings_sweep.hpp finds what has no effect.
#include "support/settings_sweep.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include "crema/error.hpp"
#include "proto/layer.pb.h"

namespace crema::test {
namespace {

using google::protobuf::Message;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

/// What a sweep over focal_loss_param says, of a layer that runs as `run` does.
std::vector<std::string> failures_of(const std::function<Seen(const FocalLossParameter&)>& run,
                                     const std::vector<SettingsTrial>& trials = {}) {
  ::testing::TestPartResultArray results;
  {
    const ::testing::ScopedFakeTestPartResultReporter reporter(
        ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &results);
    SettingsSweep({.name = "Focal",
                   .trials = trials,
                   .make = [](const std::string&) -> std::unique_ptr<Message> {
                     return std::make_unique<LayerParameter>();
                   },
                   .run =
                       [&](const Message& layer, const std::string&) {
                         return run(dynamic_cast<const LayerParameter&>(layer).focal_loss_param());
                       },
                   .is_documented = [](const auto& field) { return field.name() == "beta"; }})
        .run({&field_of(*LayerParameter::descriptor(), "focal_loss_param")});
  }
  std::vector<std::string> failures;
  for (int i = 0; i < results.size(); ++i)
    failures.push_back(results.GetTestPartResult(i).message());
  return failures;
}

/// A layer that reads alpha and gamma, refuses LINEAR and warns of an activation.
Seen run_some(const FocalLossParameter& settings) {
  Seen seen{.values = text(settings.alpha(), ' ', settings.gamma())};
  if (settings.type() != FocalLossParameter::ORIGIN) seen.error = "type LINEAR is not there";
  if (settings.activation() != FocalLossParameter::SOFTMAX)
    seen.warnings.insert("activation has no effect");
  return seen;
}

TEST(SettingsSweep, FindsSettingsWithoutEffect) {
  EXPECT_THAT(failures_of(run_some), UnorderedElementsAre(HasSubstr("focal_loss_param.beta"),
                                                          HasSubstr("background_label_id")));
}

TEST(SettingsSweep, TakesReasonsThatAreDocumented) {
  const std::vector<SettingsTrial> trials = {
      {.field = "FocalLossParameter.beta", .because = "of LINEAR"},
      {.field = "Focal focal_loss_param.background_label_id", .because = "of SIGMOID"}};
  EXPECT_THAT(failures_of(run_some, trials),
              UnorderedElementsAre(HasSubstr("background_label_id")));
}

TEST(SettingsSweep, SetsWhatTheTableSays) {
  // beta is read beside gamma 5 only, and the background where it is 7.
  const auto run = [](const FocalLossParameter& settings) {
    Seen seen = run_some(settings);
    if (settings.gamma() == 5) seen.values += text(" beta ", settings.beta());
    if (settings.background_label_id() == 7) seen.error = "background_label_id 7 is no class";
    return seen;
  };
  const std::vector<SettingsTrial> trials = {
      {.field = "FocalLossParameter.beta", .given = "gamma: 5"},
      {.field = "Focal focal_loss_param.background_label_id",
       .set = "focal_loss_param { background_label_id: 7 }",
       .error = "is no class"}};
  EXPECT_THAT(failures_of(run, trials), ::testing::IsEmpty());
}

}  // namespace
}  // namespace crema::test
