// Solvers that people published: their settings are ones that a run can have.
#include <gtest/gtest.h>

#include <iostream>

#include "crema/context.hpp"
#include "model/text_format.hpp"
#include "model/upgrade/upgrade.hpp"
#include "proto/solver.pb.h"
#include "solver/rate_policy.hpp"
#include "solver/settings.hpp"
#include "solver/update_rule.hpp"
#include "support/wild_files.hpp"

namespace crema {
namespace {

/// Why no run can have the settings; "" if one can.
std::string complaint_about(const std::string& path) {
  SolverParameter solver;
  SourceMap source;
  try {
    read_text_proto(path, solver, &source);
    upgrade_solver(solver, source);
    check_settings(solver, source);
    Context context;
    const UpdateRule rule(solver, context, source);
    const RatePolicy policy(solver, rule.momentum(), source);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// What is wrong with a solver that no run can have, by the end of its path.
std::string expected_complaint(const std::string& path) {
  if (path.ends_with("person_detection_action_recognition_teacher/solver.prototxt"))
    return ":9:1: lr_policy 'multistep' needs gamma";
  return "";
}

TEST(WildSolversTest, HaveSettingsThatARunCanHave) {
  const std::filesystem::path folder = test::shared_path("wild");
  const auto files = test::published_files(folder);
  if (files.empty()) GTEST_SKIP() << "needs " << folder << ": set CREMA_SHARED_DIR";
  int checked = 0;
  for (const auto& file : files) {
    // Of the others, no published schema reads the file.
    if (file.kind != "solver" || !file.parses_somewhere()) continue;
    SCOPED_TRACE(file.path);
    const std::string complaint = complaint_about((folder / file.path).string());
    if (complaint.find("is not available") != std::string::npos) {
      std::cout << "left out: " << file.path << ": " << complaint << "\n";
      continue;
    }
    const std::string expected = expected_complaint(file.path);
    if (expected.empty()) {
      EXPECT_EQ(complaint, "");
    } else {
      EXPECT_NE(complaint.find(file.path + expected), std::string::npos) << complaint;
    }
    ++checked;
  }
  EXPECT_GE(checked, 36);
}

}  // namespace
}  // namespace crema
