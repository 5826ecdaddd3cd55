// Snapshots as a user meets them: --resume, crema checksum, a full disk.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "support/database.hpp"
#include "tools/cli.hpp"

namespace crema::test {
namespace {

namespace fs = std::filesystem;

class SnapshotCliTest : public CliTest {
 protected:
  /// Flips a bit in the middle of the file, or at another part of it.
  static void damage(const std::string& path, double at = 0.5) {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(static_cast<std::streamoff>(at * static_cast<double>(fs::file_size(path))));
    const int byte = file.peek();
    file.seekp(file.tellg());
    file.put(static_cast<char>(byte ^ 4));
  }
};

TEST_F(SnapshotCliTest, ResumeTakesTheNewestWholeSnapshotOrStarts) {
  const std::string command =
      "train --resume --solver=" + snapshotting_solver("max_iter: 4 snapshot: 2");
  const Output fresh = run(command);
  EXPECT_EQ(fresh.status, 0) << fresh.text;
  EXPECT_TRUE(fresh.says("No snapshot to resume from: starting from scratch")) << fresh.text;
  damage(path("s_iter_4.solverstate"));
  const Output resumed = run(command);
  EXPECT_EQ(resumed.status, 0) << resumed.text;
  EXPECT_TRUE(resumed.says("the snapshot '" + path("s_iter_4.solverstate") + "' is passed over"))
      << resumed.text;
  EXPECT_TRUE(resumed.says("Resuming from " + path("s_iter_2.solverstate") + " at iteration 2"))
      << resumed.text;
  const Output done = run(command);
  EXPECT_TRUE(done.says("the snapshot is at iteration 4, max_iter is 4: nothing to train"))
      << done.text;
  expect_refusal(command + " --snapshot=" + path("s_iter_4.solverstate"),
                 {"--snapshot", "--resume"});
  // The snapshot needs no weights to start from.
  const Output weightless = run(command + " --weights=" + path("gone.caffemodel"));
  EXPECT_EQ(weightless.status, 0) << weightless.text;
  EXPECT_TRUE(weightless.says("Resuming from " + path("s_iter_4.solverstate"))) << weightless.text;
  damage(path("s_iter_2.solverstate"));
  damage(path("s_iter_4.solverstate"));
  expect_refusal(command, {"none of the snapshots", path("s_iter_4.solverstate"), "from scratch"});
}

// The net comes through a pipe: it is read behind the first look for snapshots.
TEST_F(SnapshotCliTest, ResumeStopsWhenSnapshotsVanishWhileNetsAreMade) {
  const std::string solver = snapshotting_solver("max_iter: 1");
  ASSERT_EQ(run("train --solver=" + solver).status, 0);
  const std::string text = read_file(path("net.prototxt"));
  fs::remove(path("net.prototxt"));
  ASSERT_EQ(::mkfifo(path("net.prototxt").c_str(), 0600), 0);
  std::atomic<bool> ended = false;
  std::thread net([&] {
    while (!ended) {
      const int pipe = ::open(path("net.prototxt").c_str(), O_WRONLY | O_NONBLOCK);
      if (pipe >= 0) {
        fs::remove(path("s_iter_1.solverstate"));
        EXPECT_EQ(::write(pipe, text.data(), text.size()), static_cast<ssize_t>(text.size()));
        ::close(pipe);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  });
  expect_refusal("train --resume --solver=" + solver, {"were removed while the nets were made"});
  ended = true;
  net.join();
}

TEST_F(SnapshotCliTest, ChecksumNamesDamageAndAcceptsChanges) {
  ASSERT_EQ(run("train --solver=" + snapshotting_solver("max_iter: 1")).status, 0);
  const std::string weights = path("s_iter_1.caffemodel"), state = path("s_iter_1.solverstate");
  const Output whole = run("checksum " + weights + " " + state);
  EXPECT_EQ(whole.status, 0) << whole.text;
  EXPECT_TRUE(whole.says(weights + ": intact")) << whole.text;
  EXPECT_TRUE(whole.says(state + ": intact")) << whole.text;
  damage(weights, 0.33);  // among the values, so that it still is a message
  const Output damaged = run("checksum " + weights + " " + state);
  EXPECT_EQ(damaged.status, 1) << damaged.text;
  EXPECT_TRUE(damaged.says(weights + "': its contents changed")) << damaged.text;
  EXPECT_TRUE(damaged.says(state + ": intact")) << damaged.text;
  expect_refusal("test --iterations=1 --model=" + net() + " --weights=" + weights,
                 {weights, "its contents changed after it was written", "checksum --accept"});
  const Output accepted = run("checksum --accept " + weights);
  EXPECT_EQ(accepted.status, 0) << accepted.text;
  EXPECT_EQ(run("checksum " + weights).status, 0);
}

// On a disk of 192 KB: a snapshot takes about 120.
TEST_F(SnapshotCliTest, AFullDiskLeavesTheLastGoodSnapshot) {
  fs::create_directory(path("disk"));
  const std::string mount = "mount -t tmpfs -o size=192k none " + path("disk");
  if (run("-rm sh -c '" + mount + "'", "unshare").status != 0)
    GTEST_SKIP() << "needs a tmpfs: run as a user who may mount one (unshare -rm)";
  const std::string model = write("wide.prototxt", R"(
layer { name: "x" type: "Input" top: "x" top: "label" input_param { shape { dim: 2 dim: 500 } shape { dim: 2 } } }
layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip" inner_product_param { num_output: 30 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" })");
  const std::string solver =
      write("full.prototxt",
            "net: '" + model +
                "' base_lr: 0.1 momentum: 0.9 lr_policy: 'fixed' max_iter: 6 snapshot: 2 "
                "snapshot_prefix: '" +
                path("disk/s") + "'");
  const Output full = run("-rm sh -c '" + mount + " && " CREMA_TOOL " train --solver=" + solver +
                              "; echo status $?; ls " + path("disk") +
                              "; " CREMA_TOOL " checksum " + path("disk/s_iter_2.*") + "'",
                          "unshare");
  EXPECT_TRUE(full.says("MB free, and the run's 3 snapshots take 0.3")) << full.text;
  EXPECT_TRUE(full.says("the snapshot of iteration 4 failed, training goes on")) << full.text;
  EXPECT_TRUE(
      full.says("No space left on device; free space on the disk of '" + path("disk") + "'"))
      << full.text;
  EXPECT_TRUE(full.says("status 1")) << "the last snapshot is needed: " << full.text;
  EXPECT_TRUE(full.says("s_iter_2.solverstate: intact")) << full.text;
  EXPECT_TRUE(full.says("s_iter_2.caffemodel: intact")) << full.text;
  EXPECT_FALSE(full.says("s_iter_4.caffemodel\n")) << full.text;
}

}  // namespace
}  // namespace crema::test
