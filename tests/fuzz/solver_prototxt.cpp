// A solver prototxt: parsed, upgraded, and made into a solver with its nets.
#include "crema/solver.hpp"
#include "fuzz/target.hpp"
#include "model/text_format.hpp"
#include "model/upgrade/upgrade.hpp"
#include "proto/solver.pb.h"

using namespace crema;

int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t count) {
  SolverParameter param;
  SourceMap source;
  const bool parsed = fuzz::attempt(
      [&] { parse_text_proto(fuzz::text_of(bytes, count), "solver.prototxt", param, &source); });
  if (!parsed) return 0;
  fuzz::attempt([&] {
    SolverParameter upgraded = param;
    upgrade_solver(upgraded, source);
    if (upgrade_solver(upgraded).is_old) fuzz::fail("the upgraded solver is still old");
  });
  fuzz::attempt_in_little_memory([&] {
    const Solver solver(param, source, fuzz::quiet_context());
    static_cast<void>(solver.rate());
  });
  return 0;
}
