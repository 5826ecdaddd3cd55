// Scores that a test net keeps for pictures of a run.
#include "net/scores.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/model_files.hpp"

namespace crema {
namespace {

/// What runs, with which code and in which layouts.
std::vector<std::string> steps_of(const Net& net) {
  std::vector<std::string> all;
  for (const NetStep& step : net.steps())
    all.push_back(text(step.type, " ", step.name, " ", step.engine, " ", step.bottom_format, " ",
                       step.top_format));
  return all;
}

// A layer compares what is kept, so that nothing could have been fused across it.
TEST(Scores, OfATestNetChangeNothingOfItsPlan) {
  for (const char* file :
       {"lenet/train_val.prototxt", "cifar10_quick/train_test.prototxt",
        "resnet20_cifar10/train_val.prototxt", "squeezenet_v1.1/train_val.prototxt",
        "googlenet/train_val.prototxt", "digits_unet/train_val.prototxt",
        "mobilenet_v2_cifar10/train_val.prototxt"}) {
    SCOPED_TRACE(file);
    const NetParameter param = test::small_training_net(file);
    // One each: a context remembers what was chosen, and an engine says so.
    Context context({.tune = false}), other({.tune = false});
    NetOptions options{.phase = Phase::test};
    const std::vector<std::string> scores = score_blobs(param, options);
    ASSERT_FALSE(scores.empty());
    const Net plain(param, context, options);
    options.keep = scores;
    const Net keeping(param, other, options);
    EXPECT_EQ(steps_of(keeping), steps_of(plain));
  }
}

}  // namespace
}  // namespace crema
