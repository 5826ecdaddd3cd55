// Runs programs in several processes, as mpirun starts them, on records and nets of a folder.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "crema/parameter_arena.hpp"
#include "crema/solver.hpp"
#include "support/database.hpp"
#include "support/needs.hpp"

namespace crema::test {

/// Why programs cannot be started in several processes; "" if they can.
inline std::string why_no_processes() {
  if (!kBuiltWithMpi) return "needs MPI: configure with CREMA_MPI=ON";
  static const bool has_launcher = std::system("mpirun --version >/dev/null 2>&1") == 0;
  return has_launcher ? "" : "needs mpirun: apt install openmpi-bin";
}

struct ProcessesOutput {
  int status = -1;
  std::string text;  // of all processes
  bool says(const std::string& part) const { return text.find(part) != std::string::npos; }
};

/// `command` in so many processes.
inline ProcessesOutput run_processes(int processes, const std::string& command) {
  const std::string whole = text(
      "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1 "
      "CREMA_RUN_DIR=none timeout 120 mpirun --oversubscribe --bind-to none -np ",
      processes, " --mca btl self,vader --mca btl_vader_single_copy_mechanism none ", command,
      " 2>&1");
  ProcessesOutput output;
  FILE* const pipe = ::popen(whole.c_str(), "r");
  std::array<char, 4096> buffer{};
  while (const size_t n = ::fread(buffer.data(), 1, buffer.size(), pipe))
    output.text.append(buffer.data(), n);
  const int status = ::pclose(pipe);
  output.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return output;
}

class ProcessesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_processes(); !why.empty()) GTEST_SKIP() << why;
    write_records("records", 50);
  }

  /// Records of 2 x 6 x 6 bytes in 2 classes.
  void write_records(const std::string& name, int count) const {
    Records records = counting_records(count, 2, 6, 6);
    for (size_t i = 0; i < records.size(); ++i) {
      Datum datum;
      ASSERT_TRUE(datum.ParseFromString(records[i].second));
      datum.set_label(static_cast<int>(i % 2));
      records[i].second = datum.SerializeAsString();
    }
    write_database(folder_ / name, records);
  }

  /// A solver's file. `layers` make "x" of "data". 12 records are a batch of all processes, and 4
  /// iterations the run, unless `more` says so.
  std::string solver(const std::string& name, const std::string& layers, const std::string& more,
                     const std::string& records = "records", int batch = 12) const {
    const std::string data =
        text("top: 'data' top: 'label' transform_param { scale: 0.01 } data_param { source: '",
             folder_ / records, "' backend: LMDB batch_size: ", batch, " } } ");
    std::string settings = text("snapshot_prefix: '", folder_ / name, "' solver_mode: CPU ", more);
    for (const std::string usual :
         {"base_lr: 0.05", "lr_policy: 'fixed'", "max_iter: 4", "batch_semantics: DIVIDED"}) {
      if (more.find(usual.substr(0, usual.find(':') + 1)) == std::string::npos)
        settings += " " + usual;
    }
    return folder_.write(
        name + ".prototxt",
        text("net_param { name: 'small' layer { name: 'data' type: 'Data' ",
             "include { phase: TRAIN } ", data,
             "layer { name: 'data' type: 'Data' include { phase: TEST } ", data, layers,
             " layer { name: 'out' type: 'InnerProduct' bottom: 'x' top: 'out' "
             "inner_product_param { num_output: 2 weight_filler { type: 'xavier' } } } "
             "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'out' bottom: 'label' "
             "top: 'loss' } } ",
             settings));
  }

  ProcessesOutput train(int processes, const std::string& words) const {
    return run_processes(processes, text(CREMA_PARALLEL_RUNNER, " train ", words));
  }

  /// The parameters of a process behind train(), as the file has them.
  template <class T>
  std::vector<T> parameters(const std::string& out, int rank) const {
    std::ifstream file(folder_ / text(out, ".", rank), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    std::vector<T> values(bytes.size() / sizeof(T));
    std::copy_n(reinterpret_cast<const T*>(bytes.data()), values.size(), values.data());
    return values;
  }

  /// The same of one process that takes whole batches.
  template <class T>
  std::vector<T> of_one_process(const std::string& file) const {
    Context context({.threads = 1, .tune = false});
    Solver solver(file, context, {.dtype = dtype_of<T>()});
    solver.solve();
    const Tensor& values = solver.net().params().data();
    return {values.values<T>().begin(), values.values<T>().end()};
  }

  /// The largest difference, by the largest value.
  template <class T>
  static double difference(const std::vector<T>& a, const std::vector<T>& b) {
    EXPECT_EQ(a.size(), b.size());
    EXPECT_FALSE(a.empty());
    double most = 0, scale = 0;
    for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      most = std::max(most, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
      scale = std::max(scale, std::abs(static_cast<double>(b[i])));
    }
    return most / scale;
  }

  ScratchFolder folder_;
};

}  // namespace crema::test
