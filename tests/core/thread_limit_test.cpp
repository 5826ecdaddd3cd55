// Threads by affinity and by the quotas of control groups, in made-up files of a system.
#include "core/thread_limit.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "support/temp_folder.hpp"

namespace crema {
namespace {

class ThreadLimitTest : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& content) const {
    const std::filesystem::path file = folder_.path("root") + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << content;
  }
  double quota() const { return thread_limit(folder_.path("root")).quota; }

  TempFolder folder_;
};

const std::string kUnified = "30 1 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";

TEST_F(ThreadLimitTest, OfVersion2) {
  write("/proc/self/cgroup", "0::/\n");
  write("/proc/self/mountinfo", kUnified);
  EXPECT_EQ(quota(), 0);
  write("/sys/fs/cgroup/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), 0);
  write("/sys/fs/cgroup/cpu.max", "150000 100000\n");
  EXPECT_EQ(quota(), 1.5);
}

TEST_F(ThreadLimitTest, IsTheLeastOfTheGroupsAround) {
  write("/proc/self/cgroup", "0::/user.slice/app/inner\n");
  write("/proc/self/mountinfo", kUnified);
  write("/sys/fs/cgroup/user.slice/cpu.max", "400000 100000\n");
  EXPECT_EQ(quota(), 4);
  write("/sys/fs/cgroup/user.slice/app/cpu.max", "100000 50000\n");
  EXPECT_EQ(quota(), 2);
  write("/sys/fs/cgroup/user.slice/app/inner/cpu.max", "300000 100000\n");
  EXPECT_EQ(quota(), 2);
}

TEST_F(ThreadLimitTest, OfVersion1) {
  write("/proc/self/cgroup", "5:memory:/pods/a\n4:cpu,cpuacct:/pods/a\n0::/\n");
  write("/proc/self/mountinfo",
        "40 30 0:31 /pods/a /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "41 30 0:32 /pods /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n");
  EXPECT_EQ(quota(), 0);
  write("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
  write("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(quota(), 0);
  write("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "250000\n");
  EXPECT_EQ(quota(), 2.5);
}

// A container that sees its own group as the root of all may see the path of the machine.
TEST_F(ThreadLimitTest, OfAContainerWithPathsOfTheMachine) {
  write("/proc/self/cgroup", "0::/docker/4f1d\n");
  write("/proc/self/mountinfo", "30 1 0:26 /docker/4f1d /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
  write("/sys/fs/cgroup/cpu.max", "50000 100000\n");
  EXPECT_EQ(quota(), 0.5);
}

TEST_F(ThreadLimitTest, IsNoneWithoutFilesOrSense) {
  EXPECT_EQ(quota(), 0);
  write("/proc/self/cgroup", "nonsense\n0::/\n");
  write("/proc/self/mountinfo", "nonsense\n" + kUnified);
  for (const std::string content : {"", "many 100000", "100000", "100000 0", "0 100000"}) {
    write("/sys/fs/cgroup/cpu.max", content);
    EXPECT_EQ(quota(), 0) << content;
  }
}

TEST(ThreadLimit, RoundsQuotasUp) {
  EXPECT_EQ((ThreadLimit{8, 8, 0}.threads()), 8);
  EXPECT_EQ((ThreadLimit{8, 8, 2}.threads()), 2);
  EXPECT_EQ((ThreadLimit{8, 8, 2.5}.threads()), 3);
  EXPECT_EQ((ThreadLimit{8, 8, 0.2}.threads()), 1);
  EXPECT_EQ((ThreadLimit{8, 3, 6}.threads()), 3);
  EXPECT_EQ((ThreadLimit{8, 8, 1e300}.threads()), 8);
}

TEST(ThreadLimit, SaysWhatLimits) {
  EXPECT_EQ((ThreadLimit{8, 8, 2}.str()), "2 of 8 cores: cgroup quota 200%");
  EXPECT_EQ((ThreadLimit{8, 4, 2.5}.str()), "3 of 8 cores: cgroup quota 250%");
  EXPECT_EQ((ThreadLimit{8, 3, 6}.str()), "3 of 8 cores: affinity");
  EXPECT_EQ((ThreadLimit{8, 8, 9}.str()), "8 cores");
  EXPECT_EQ((ThreadLimit{1, 1, 0}.str()), "1 core");
}

}  // namespace
}  // namespace crema
