// What the converters' commands show while they work, in a log and on a terminal.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "support/database.hpp"
#include "support/needs.hpp"
#include "tools/cli.hpp"
#include "tools/on_terminal.hpp"

namespace crema::test {
namespace {

class ConvertCli : public CliTest {
 protected:
  void SetUp() override {
    if (!kBuiltWithOpenCv) GTEST_SKIP() << "needs OpenCV: configure with CREMA_OPENCV=ON";
    write("a.pgm", pgm(1, 1, "a"));
  }
  /// Arguments that convert a list of this text.
  std::string convert(const std::string& list) {
    return "convert-imageset --gray " + path("") + " " + write("list", list) + " " + path("db");
  }
};

TEST_F(ConvertCli, LogsEachThousandRecordsWithAnyNumberOfThreads) {
  std::string list;
  for (int i = 0; i < 2050; ++i) list += "a.pgm 1\n";
  const Output output = run(convert(list), "OMP_NUM_THREADS=3 " CREMA_TOOL);
  EXPECT_EQ(output.status, 0) << output.text;
  for (const char* part : {"Processed 1000 files.", "Processed 2000 files.",
                           "Processed 2050 files.", "2050 records written"}) {
    EXPECT_TRUE(output.says(part)) << part << " is not in: " << output.text;
  }
  EXPECT_FALSE(output.says(" of 2050 records")) << output.text;
}

TEST_F(ConvertCli, OnATerminalTheLineEndsBeforeWhateverFollows) {
  const Output good = run_on_terminal(convert("a.pgm 1\na.pgm 2\n"));
  EXPECT_EQ(good.status, 0) << good.text;
  EXPECT_TRUE(good.says("2 of 2 records\r\n")) << good.text;

  const Output bad = run_on_terminal(convert("a.pgm 1\nmissing.pgm 2\n") + " --overwrite");
  EXPECT_EQ(bad.status, 1) << bad.text;
  EXPECT_TRUE(bad.says("1 of 2 records\r\ncrema: ")) << bad.text;
  EXPECT_TRUE(bad.says("missing.pgm")) << bad.text;
}

// The database got the number of the closed stream, and the lines that are logged were written into
// it.
TEST_F(ConvertCli, ClosedStreamsLeaveTheDatabaseWhole) {
  for (const char* closed : {"0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"}) {
    const Output output =
        run(convert("a.pgm 1\na.pgm 2\n") + " --overwrite " + closed + ")", "(" CREMA_TOOL);
    EXPECT_EQ(output.status, 0) << closed << "\n" << output.text;
    EXPECT_EQ(run("verify-db " + path("db")).status, 0) << closed;
    EXPECT_EQ(read_database(path("db")).size(), 2U) << closed;
  }
}

}  // namespace
}  // namespace crema::test
