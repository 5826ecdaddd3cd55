// Parameter and ParameterArena: where values and gradients lie, sharing, and lazy clearing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>

#include "core/memory.hpp"
#include "crema/parameter_arena.hpp"
#include "solver/update_rule.hpp"
#include "support/expect_error.hpp"
#include "support/fake_device.hpp"

namespace crema {
namespace {

using testing::Each;
using testing::ElementsAre;

/// As Layer::add_param makes them.
std::unique_ptr<Parameter> make(const Shape& shape, DType dtype = DType::f32) {
  auto parameter = std::make_unique<Parameter>(shape, Filler());
  parameter->attach(std::make_shared<ParameterStorage>(Tensor(shape, dtype), Tensor(shape, dtype)));
  return parameter;
}

ParameterArena::Segment segment(Parameter& parameter, const std::string& layer = "a") {
  return {&parameter, layer, 0, 0, 0};
}

TEST(Parameter, FirstWriterOverwritesThenAll) {
  const auto parameter = make(Shape{2});
  EXPECT_EQ(parameter->begin_gradient(), 0);
  EXPECT_EQ(parameter->begin_gradient(), 1);
  parameter->clear_gradient();
  EXPECT_EQ(parameter->begin_gradient(), 0);
}

TEST(Parameter, GradientIsZeroAfterClearing) {
  const auto parameter = make(Shape{2});
  EXPECT_EQ(parameter->begin_gradient(), 0);
  parameter->diff.change<float>()[0] = 5;
  EXPECT_THAT(parameter->gradient().values<float>(), ElementsAre(5, 0));
  parameter->clear_gradient();
  EXPECT_THAT(parameter->diff.values<float>(), ElementsAre(5, 0));  // lazily
  EXPECT_THAT(parameter->gradient().values<float>(), ElementsAre(0, 0));
  EXPECT_EQ(parameter->begin_gradient(), 1);
}

TEST(Sharing, UsesTheOwnersMemoryUnderItsOwnShape) {
  const auto owner = make(Shape{2, 3}), user = make(Shape{3, 2});
  user->attach(owner->storage());
  EXPECT_EQ(user->storage(), owner->storage());
  EXPECT_EQ(user->data.shape(), (Shape{3, 2}));
  EXPECT_TRUE(user->data.same_memory(owner->data));
  EXPECT_TRUE(user->diff.same_memory(owner->diff));
}

TEST(Sharing, AddsToOneGradient) {
  const auto owner = make(Shape{2}), user = make(Shape{2});
  user->attach(owner->storage());
  owner->clear_gradient();
  EXPECT_EQ(user->begin_gradient(), 0);
  EXPECT_EQ(owner->begin_gradient(), 1);
  user->clear_gradient();
  EXPECT_EQ(owner->begin_gradient(), 0);
  EXPECT_EQ(user->gradient().shape(), user->shape());
}

TEST(Sharing, RefusesOtherCounts) {
  const auto owner = make(Shape{2, 3}), other = make(Shape{5});
  expect_error([&] { other->attach(owner->storage()); }, {"5", "6 values (2x3)"});
}

// Those that are left add to one gradient as before.
TEST(Sharing, UsersShareOnWithoutTheOwner) {
  auto owner = make(Shape{2});
  const auto first = make(Shape{2}), second = make(Shape{2});
  first->attach(owner->storage());
  second->attach(owner->storage());
  owner->data.fill(3);
  EXPECT_EQ(first->begin_gradient(), 0);
  owner.reset();
  EXPECT_THAT(second->data.values<float>(), Each(3));
  EXPECT_EQ(second->begin_gradient(), 1) << "what the first added before is lost";
  second->clear_gradient();
  EXPECT_EQ(first->begin_gradient(), 0);
  EXPECT_EQ(second->begin_gradient(), 1);
}

Tensor doubled(const Tensor& values) {
  Tensor result(values.shape());
  for (int64_t i = 0; i < values.count(); ++i) {
    result.change<float>()[i] = 2 * values.read<float>()[i];
  }
  return result;
}

TEST(Derived, IsMadeOnceForEachVersion) {
  const auto parameter = make(Shape{1}), user = make(Shape{1});
  user->attach(parameter->storage());
  int made = 0;
  std::shared_ptr<const Tensor> held;
  const auto get = [&](Parameter& of) {
    held = of.storage()->derived("doubled", [&](const Tensor& values) {
      ++made;
      return doubled(values);
    });
    return held->at(0);
  };
  parameter->data.changing<float>()[0] = 3;
  EXPECT_EQ(get(*parameter), 6);
  EXPECT_EQ(get(*user), 6);
  EXPECT_EQ(made, 1) << "who shares the parameter shares what is made from it";
  user->data.changing<float>()[0] = 4;
  EXPECT_EQ(get(*parameter), 8);
  EXPECT_EQ(made, 2);
  held.reset();
  EXPECT_EQ(get(*user), 8);
  EXPECT_EQ(made, 3) << "nobody held it";
}

// The caller may write through a pointer long after asking for it.
TEST(Derived, IsNotTrustedWhileSomebodyMayWrite) {
  const auto parameter = make(Shape{1});
  const auto get = [&] { return parameter->storage()->derived("doubled", doubled)->at(0); };
  float* const kept = parameter->data.change<float>();
  *kept = 3;
  EXPECT_EQ(get(), 6);
  *kept = 4;
  EXPECT_EQ(get(), 8);
  {
    const Changing<float> writing = parameter->data.changing<float>();
    parameter->data.seal();
    writing[0] = 5;
    EXPECT_EQ(get(), 10);
    writing[0] = 6;
    EXPECT_EQ(get(), 12);
  }
  EXPECT_EQ(get(), 12);
  const auto held = parameter->storage()->derived("doubled", doubled);
  EXPECT_EQ(parameter->storage()->derived("doubled", doubled), held);
}

TEST(ComputeWith, LeavesStorageAndGradient) {
  const auto owner = make(Shape{2, 3}), user = make(Shape{3, 2});
  user->attach(owner->storage());
  owner->data.fill(1);
  Tensor others(Shape{6});
  others.fill(2);
  ParameterStorage values(others, Tensor(Shape{0}));
  EXPECT_EQ(&user->values(), owner->storage().get());
  user->compute_with(&values);
  EXPECT_EQ(&user->values(), &values);
  EXPECT_EQ(user->data.shape(), (Shape{3, 2}));
  EXPECT_THAT(user->data.values<float>(), Each(2));
  EXPECT_THAT(owner->data.values<float>(), Each(1));
  EXPECT_EQ(user->storage(), owner->storage());
  EXPECT_EQ(user->begin_gradient(), 0);
  EXPECT_EQ(owner->begin_gradient(), 1);
  EXPECT_TRUE(user->diff.same_memory(owner->diff));
  user->compute_with(nullptr);
  EXPECT_TRUE(user->data.same_memory(owner->data));
}

TEST(Arena, LaysSegmentsOnMultiplesOfSixteen) {
  const auto a = make(Shape{3, 5}), b = make(Shape{16}), c = make(Shape{}), d = make(Shape{0});
  ParameterArena arena;
  arena.build({segment(*a), segment(*b), segment(*d), segment(*c)}, DType::f32, true);
  ASSERT_EQ(arena.segments().size(), 4u);
  EXPECT_EQ(arena.segments()[0].offset, 0);
  EXPECT_EQ(arena.segments()[0].count, 15);
  EXPECT_EQ(arena.segments()[1].offset, 16);
  EXPECT_EQ(arena.segments()[2].offset, 32);
  EXPECT_EQ(arena.segments()[2].count, 0);
  EXPECT_EQ(arena.segments()[3].offset, 32);
  EXPECT_EQ(arena.segments()[3].count, 1);
  EXPECT_EQ(arena.size(), 48);
  EXPECT_EQ(arena.data().shape(), Shape{48});
  EXPECT_EQ(arena.diff().shape(), Shape{48});
}

TEST(Arena, BindsParametersAtTheirOffsets) {
  const auto a = make(Shape{3}), b = make(Shape{2, 2});
  ParameterArena arena;
  arena.build({segment(*a), segment(*b)}, DType::f32, true);
  a->data.change<float>()[1] = 7;
  b->data.change<float>()[3] = 8;
  b->gradient().change<float>()[0] = 9;
  EXPECT_EQ(arena.data().at(1), 7);
  EXPECT_EQ(arena.data().at(19), 8);
  EXPECT_EQ(arena.diff().at(16), 9);
  arena.data().fill(2);
  EXPECT_THAT(b->data.values<float>(), Each(2));
}

TEST(Arena, TakesValuesAlong) {
  const auto a = make(Shape{2}), b = make(Shape{2});
  a->data.fill(1);
  b->data.fill(2);
  ParameterArena arena;
  arena.build({segment(*a), segment(*b)}, DType::f32, false);
  EXPECT_EQ(arena.data().at(1), 1);
  EXPECT_EQ(arena.data().at(16), 2);
  EXPECT_EQ(arena.data().at(2), 0);  // gaps are zero
}

TEST(Arena, WithoutGradientsTakesNoMemoryForThem) {
  const auto a = make(Shape{2});
  ParameterArena arena;
  arena.build({segment(*a)}, DType::f32, false);
  EXPECT_EQ(arena.diff().count(), 0);
  a->clear_gradient();
  arena.settle_gradients();
  EXPECT_FALSE(a->diff.has_memory());
}

TEST(Arena, WorksInDoubles) {
  const auto a = make(Shape{3}), b = make(Shape{3});
  b->data.fill(0.25);
  ParameterArena arena;
  arena.build({segment(*a), segment(*b)}, DType::f64, true);
  EXPECT_EQ(arena.dtype(), DType::f64);
  EXPECT_THAT(b->data.values<double>(), Each(0.25));
  b->gradient().change<double>()[2] = 1e-300;
  EXPECT_EQ(arena.diff().read<double>()[18], 1e-300);
  expect_error([&] { ParameterArena().build({segment(*a)}, DType::bf16, false); }, {"bf16"});
}

// A pass over the arena is one over all of its segments, each of which has a version of its own.
TEST(Arena, SegmentsHaveVersionsOfTheirOwn) {
  const auto a = make(Shape{2}), b = make(Shape{2});
  ParameterArena arena;
  arena.build({segment(*a), segment(*b)}, DType::f32, false);
  const uint64_t a_before = a->data.memory()->version(), b_before = b->data.memory()->version();
  a->data.changing<float>()[0] = 1;
  EXPECT_NE(a->data.memory()->version(), a_before);
  EXPECT_EQ(b->data.memory()->version(), b_before);
  arena.data().changing<float>()[16] = 2;
  EXPECT_NE(b->data.memory()->version(), b_before);
  EXPECT_EQ(b->data.at(0), 2);
  // A pointer into the arena may write any segment at any time.
  arena.data().change<float>();
  EXPECT_NE(b->data.memory()->version(), b->data.memory()->version());
  arena.data().seal();
  EXPECT_EQ(b->data.memory()->version(), b->data.memory()->version());
}

TEST(Arena, ClearingIsLazyUntilSettled) {
  const auto a = make(Shape{2}), b = make(Shape{2});
  ParameterArena arena;
  arena.build({segment(*a), segment(*b)}, DType::f32, true);
  a->gradient().fill(3);
  b->gradient().fill(4);
  a->clear_gradient();
  b->clear_gradient();
  EXPECT_EQ(arena.diff().at(0), 3);  // memory still holds the old values
  EXPECT_EQ(a->begin_gradient(), 0);
  a->diff.fill(5);  // the first writer overwrites
  arena.settle_gradients();
  EXPECT_EQ(arena.diff().at(0), 5);
  EXPECT_EQ(arena.diff().at(16), 0);  // b had no writer
  EXPECT_EQ(b->begin_gradient(), 1);
}

TEST(Arena, SettlesOnlyWhereAGradientIsNeeded) {
  const auto learns = make(Shape{2}), frozen = make(Shape{2});
  frozen->needs_gradient = false;
  ParameterArena arena;
  arena.build({segment(*learns), segment(*frozen)}, DType::f32, true);
  arena.diff().fill(7);
  learns->clear_gradient();
  frozen->clear_gradient();
  arena.settle_gradients();
  EXPECT_EQ(arena.diff().at(0), 0);
  EXPECT_EQ(arena.diff().at(16), 7) << "work for nobody";
}

// Three layers on a device and a fourth on the CPU: two that learn, one that is frozen, statistics.
class ArenaOnADevice : public testing::Test {
 protected:
  ArenaOnADevice() {
    frozen_->needs_gradient = false;
    statistics_->learnable = false;
    for (Parameter* each : {first_.get(), second_.get(), frozen_.get(), statistics_.get()}) {
      each->data.fill(1);
    }
    arena_.build({segment(*first_), segment(*frozen_), segment(*second_), segment(*statistics_)},
                 DType::f32, true);
    for (Parameter* each : {first_.get(), second_.get(), frozen_.get(), statistics_.get()}) {
      each->data.read<float>(&device_);
    }
    for (Parameter* each : {first_.get(), second_.get()}) {
      each->begin_gradient();
      float* const gradient = each->diff.change<float>(&device_);
      std::fill_n(gradient, each->shape().count(), 0.5F);
    }
    update();
    forget();
  }

  /// What an update of the device does with the arrays.
  void update() {
    UpdateArrays arrays = update_arrays(device_, arena_, history_);
    for (const ParameterArena::Segment& piece : arena_.segments()) {
      if (!learns(*piece.parameter)) continue;
      for (int64_t i = piece.offset; i < piece.offset + piece.count; ++i) {
        static_cast<float*>(arrays.parameters)[i] -= static_cast<const float*>(arrays.gradients)[i];
        static_cast<float*>(arrays.histories[0])[i] += 1;
      }
    }
  }
  void forget() { device_.bytes_up = device_.bytes_down = 0; }

  FakeDevice device_;
  std::unique_ptr<Parameter> first_ = make(Shape{100}), frozen_ = make(Shape{200}),
                             second_ = make(Shape{3, 10}), statistics_ = make(Shape{40});
  ParameterArena arena_;
  std::vector<Tensor> history_ = {Tensor(Shape{384})};
};

TEST_F(ArenaOnADevice, ALayerOnTheCpuMovesItsOwnSegments) {
  for (int iteration = 0; iteration < 3; ++iteration) {
    forget();
    EXPECT_EQ(second_->data.read<float>()[29], 0.5F - 0.25F * static_cast<float>(iteration));
    float* const gradient = second_->diff.change<float>();
    std::fill_n(gradient, 30, 0.25F);
    first_->data.read<float>(&device_);
    first_->diff.change<float>(&device_);
    frozen_->data.read<float>(&device_);
    statistics_->data.change<float>(&device_);
    update();
    EXPECT_EQ(device_.bytes_down, (iteration == 0 ? 2 : 1) * second_->data.bytes())
        << "values, and once what the gradient was before";
    EXPECT_EQ(device_.bytes_up, second_->diff.bytes());
  }
  EXPECT_EQ(first_->data.at(99), -1);
}

TEST_F(ArenaOnADevice, AnUpdateLeavesWhatDoesNotLearnAsItIs) {
  const uint64_t frozen = frozen_->data.memory()->version();
  frozen_->data.read<float>();
  statistics_->data.read<float>();
  forget();
  update();
  EXPECT_EQ(frozen_->data.at(0), 1);
  EXPECT_EQ(statistics_->data.at(0), 1);
  EXPECT_EQ(device_.bytes_down + device_.bytes_up, 0U);
  EXPECT_EQ(frozen_->data.memory()->version(), frozen) << "what is derived from it stays";
}

TEST_F(ArenaOnADevice, ReadingAllOfItFetchesWhatChanged) {
  arena_.data().read<float>();
  forget();
  update();
  arena_.data().read<float>();
  EXPECT_EQ(device_.bytes_down, first_->data.bytes() + second_->data.bytes());
  EXPECT_EQ(device_.bytes_up, 0U);
  EXPECT_EQ(arena_.data().at(0), 0);
  EXPECT_EQ(arena_.data().at(112), 1);
}

TEST(Arena, SizesThatDoNotFitAreErrors) {
  const int64_t big = int64_t{1} << 60;
  const auto a = std::make_unique<Parameter>(Shape{big * 7}, Filler());
  const auto b = std::make_unique<Parameter>(Shape{big}, Filler());
  ParameterArena arena;
  expect_error(
      [&] {
        arena.build({segment(*a), segment(*b)}, DType::f32, false);
      },
      {"parameters of a net", "64 bits"});
}

}  // namespace
}  // namespace crema
