#include "core/path_advice.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include "support/expect_error.hpp"
#include "support/temp_folder.hpp"

namespace crema {
namespace {

class PathAdvice : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("HOME", "/home/me", 1);
    ::setenv("CREMA_TEST_ROOT", "/data/sets", 1);
    ::unsetenv("CREMA_TEST_NONE");
  }
  TempFolder folder_;
};

TEST_F(PathAdvice, NamesWhatAShellWouldHaveReplacedAndThePathThatItWouldBe) {
  EXPECT_EQ(path_advice("~/data/train_lmdb"),
            "; ~ is not replaced here: write '/home/me/data/train_lmdb'");
  EXPECT_EQ(path_advice("~"), "; ~ is not replaced here: write '/home/me'");
  EXPECT_EQ(path_advice("~root/x"), "; ~root is not replaced here: write '/root/x'");
  EXPECT_EQ(path_advice("$CREMA_TEST_ROOT/train_lmdb"),
            "; $CREMA_TEST_ROOT is not replaced here: write '/data/sets/train_lmdb'");
  EXPECT_EQ(path_advice("${CREMA_TEST_ROOT}/train"),
            "; ${CREMA_TEST_ROOT} is not replaced here: write '/data/sets/train'");
  EXPECT_EQ(path_advice("$(CREMA_TEST_ROOT)/train"),
            "; $(CREMA_TEST_ROOT) is not replaced here: write '/data/sets/train'");
  EXPECT_EQ(path_advice("%CREMA_TEST_ROOT%/train"),
            "; %CREMA_TEST_ROOT% is not replaced here: write '/data/sets/train'");
  EXPECT_EQ(path_advice("/mnt/$CREMA_TEST_ROOT/a$CREMA_TEST_ROOT"),
            "; $CREMA_TEST_ROOT is not replaced here: write '/mnt//data/sets/a/data/sets'");
  EXPECT_EQ(path_advice("~/${CREMA_TEST_ROOT}"),
            "; ~ and ${CREMA_TEST_ROOT} are not replaced here: write '/home/me//data/sets'");
}

TEST_F(PathAdvice, SaysWhatIsNotSet) {
  EXPECT_EQ(path_advice("$CREMA_TEST_NONE/x"),
            "; $CREMA_TEST_NONE is not replaced here, and CREMA_TEST_NONE is not set: write the "
            "whole path out");
  EXPECT_EQ(path_advice("%CREMA_TEST_NONE%/x"),
            "; %CREMA_TEST_NONE% is not replaced here, and CREMA_TEST_NONE is not set: write the "
            "whole path out");
  EXPECT_EQ(path_advice("~nobodyofthatname/x"),
            "; ~nobodyofthatname is not replaced here, and there is no user 'nobodyofthatname': "
            "write the whole path out");
  EXPECT_EQ(path_advice("$(pwd)/x"),
            "; $(pwd) is not replaced here, and only a shell knows it: write the whole path out");
  EXPECT_EQ(path_advice("${CREMA_TEST_ROOT:-/a}/x"),
            "; ${CREMA_TEST_ROOT:-/a} is not replaced here, and only a shell knows it: write the "
            "whole path out");
  ::unsetenv("HOME");
  EXPECT_EQ(path_advice("~/x"),
            "; ~ is not replaced here, and HOME is not set: write the whole path out");
}

TEST_F(PathAdvice, NamesTheBackslashOfWindows) {
  EXPECT_EQ(
      path_advice("C:\train\new\bin_lmdb"),
      "; \\t, \\n, \\b are control characters in a text: write the path with / or \\\\ in the "
      "place of a backslash, as in 'C:/train/new/bin_lmdb'");
  EXPECT_EQ(path_advice("a\x01"),
            "; \\ with digits is a control character in a text: write the path with / or \\\\ in "
            "the place of a backslash");
  EXPECT_EQ(path_advice("D:\\caffe\\data"),
            "; 'D:' is a drive of Windows, which this system does not have: write where the files "
            "are here, with / between folders");
  EXPECT_EQ(path_advice("data\\train"), "; folders are separated by / here, not by a backslash");
  folder_.write("train", "");
  EXPECT_EQ(path_advice(folder_.path("") + "\\train"),
            "; folders are separated by / here, not by a backslash: write '" + folder_.path("") +
                "/train'");
}

TEST_F(PathAdvice, OtherPathsHaveTheUsualAdvice) {
  for (const char* path : {"data/train", "a~b", "~notes", "100%", "a%20b%20c", "frame_%d_%s.png",
                           "price$", "$1", "C:", "x:y", "$", "%%"}) {
    EXPECT_EQ(path_advice(path, "make it"), "; make it") << path;
    EXPECT_EQ(path_advice(path), "") << path;
    check_new_path(path);
  }
}

TEST_F(PathAdvice, NothingIsMadeUnderANameThatAShellWouldHaveReplaced) {
  expect_error([] { check_new_path("~/results"); },
               {"cannot make '~/results'; ~ is not replaced here: write '/home/me/results'"});
  expect_error([] { check_new_path("$CREMA_TEST_NONE"); }, {"CREMA_TEST_NONE is not set"});
  check_new_path("50%OFF%");
  check_new_path(folder_.write("$CREMA_TEST_NONE", ""));  // is there
}

}  // namespace
}  // namespace crema
