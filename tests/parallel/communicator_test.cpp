// What processes do together, checked in each of them (runner/parallel_runner.cpp).
#include "parallel/communicator.hpp"

#include "parallel/processes.hpp"

namespace crema::test {
namespace {

class CommunicatorTest : public ProcessesTest {};

TEST_F(CommunicatorTest, SumsHaveOneOrderAndDataCome) {
  for (const int processes : {2, 3, 4}) {
    const ProcessesOutput output =
        run_processes(processes, text(CREMA_PARALLEL_RUNNER, " operations"));
    EXPECT_EQ(output.status, 0) << output.text;
    EXPECT_TRUE(output.says("all done")) << output.text;
  }
}

TEST(LaunchedProcesses, AreThoseOfTheLauncher) {
  ::unsetenv("OMPI_COMM_WORLD_SIZE");
  EXPECT_EQ(launched_processes(), 1);
  EXPECT_EQ(join_processes(), nullptr);
  ::setenv("PMI_SIZE", "3", 1);
  EXPECT_EQ(launched_processes(), 3);
  ::unsetenv("PMI_SIZE");
}

}  // namespace
}  // namespace crema::test
