#include "crema/tensor.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "core/memory.hpp"
#include "core/move.hpp"
#include "support/expect_error.hpp"
#include "support/fake_device.hpp"

namespace crema {
namespace {

using testing::ElementsAre;

Tensor counting(const Shape& shape, DType dtype = DType::f32) {
  Tensor tensor(shape);
  float* values = tensor.overwrite<float>();
  for (int64_t i = 0; i < tensor.count(); ++i) values[i] = static_cast<float>(i);
  return tensor.to(dtype, Format::contiguous);
}

TEST(Tensor, DefaultIsEmpty) {
  const Tensor tensor;
  EXPECT_EQ(tensor.count(), 0);
  EXPECT_EQ(tensor.bytes(), 0u);
  EXPECT_FALSE(tensor.has_memory());
  EXPECT_NE(tensor.read<float>(), nullptr);
}

TEST(Tensor, TakesZeroedMemoryAtTheFirstAccess) {
  const Tensor tensor(Shape{2, 3});
  EXPECT_FALSE(tensor.has_memory());
  EXPECT_THAT(tensor.values<float>(), ElementsAre(0, 0, 0, 0, 0, 0));
  EXPECT_TRUE(tensor.has_memory());
}

TEST(Tensor, SizesInBytes) {
  EXPECT_EQ(Tensor(Shape{3}, DType::u8).bytes(), 3u);
  EXPECT_EQ(Tensor(Shape{3}, DType::bf16).bytes(), 6u);
  EXPECT_EQ(Tensor(Shape{3}, DType::f16).bytes(), 6u);
  EXPECT_EQ(Tensor(Shape{3}, DType::f32).bytes(), 12u);
  EXPECT_EQ(Tensor(Shape{3}, DType::i32).bytes(), 12u);
  EXPECT_EQ(Tensor(Shape{3}, DType::f64).bytes(), 24u);
  EXPECT_EQ(Tensor(Shape{3}, DType::i64).bytes(), 24u);
  EXPECT_EQ(Tensor(Shape{2, 17, 4, 5}, DType::f32, Format::channels_last).storage(), 680);
  EXPECT_EQ(Tensor(Shape{2, 17, 4, 5}, DType::f32, Format::blocked8).storage(), 2 * 24 * 20);
  EXPECT_EQ(Tensor(Shape{2, 17, 4, 5}, DType::f32, Format::blocked16).storage(), 2 * 32 * 20);
}

TEST(Tensor, SizesThatDoNotFitAreErrors) {
  const int64_t big = int64_t{1} << 31;
  expect_error([&] { Tensor(Shape{big, big, 4}); }, {"2147483648x2147483648x4", "64 bits"});
  // The elements can be counted, the bytes cannot.
  expect_error([&] { Tensor(Shape{big, big}, DType::f64); }, {"bytes", "64 bits"});
  // Padding makes it too large.
  expect_error([&] { Tensor(Shape{big, 1, big}, DType::u8, Format::blocked16); }, {"64 bits"});
  Tensor tensor(Shape{2});
  expect_error([&] { tensor.reshape(Shape{big, big}); }, {"64 bits"});
  EXPECT_EQ(tensor.shape(), Shape{2});
}

TEST(Tensor, WrongElementTypeIsAnError) {
  Tensor tensor(Shape{2, 3}, DType::f64);
  expect_error([&] { tensor.read<float>(); }, {"f64", "2x3", "f32"});
  expect_error([&] { tensor.change<bfloat16>(); }, {"f64", "bf16"});
}

TEST(Tensor, FormatsNeedRankThree) {
  expect_error(
      [] {
        Tensor(Shape{2, 3}, DType::f32, Format::channels_last);
      },
      {"channels_last", "2x3", "contiguous"});
  Tensor tensor(Shape{2, 3});
  expect_error([&] { tensor.set_layout(DType::f32, Format::blocked8); }, {"blocked8", "2x3"});
}

TEST(Tensor, CopiesShareMemory) {
  Tensor tensor = counting(Shape{4});
  Tensor copy = tensor;
  copy.change<float>()[2] = 9;
  EXPECT_THAT(tensor.values<float>(), ElementsAre(0, 1, 9, 3));
  EXPECT_TRUE(tensor.same_memory(copy));
}

TEST(Reshape, KeepsMemoryThatIsLargeEnough) {
  Tensor tensor = counting(Shape{2, 3});
  const void* before = tensor.read<float>();
  tensor.reshape(Shape{4});
  EXPECT_EQ(tensor.read<float>(), before);
  tensor.reshape(Shape{3, 2});
  EXPECT_EQ(tensor.read<float>(), before);
  tensor.reshape(Shape{7});
  EXPECT_FALSE(tensor.has_memory());
  EXPECT_EQ(tensor.at(6), 0);
}

TEST(Reshape, AThousandTimesTakesMemoryOnce) {
  Tensor tensor(Shape{8, 16, 9, 9});
  const auto memory = (tensor.read<float>(), tensor.memory());
  for (int i = 0; i < 1000; ++i) {
    tensor.reshape(Shape{1 + i % 8, 16, 1 + i % 9, 9});
    EXPECT_EQ(tensor.memory(), memory);
  }
}

TEST(Reshape, BelowRankThreeMakesItContiguous) {
  Tensor tensor(Shape{2, 3, 4}, DType::f32, Format::blocked8);
  tensor.reshape(Shape{2, 12});
  EXPECT_EQ(tensor.format(), Format::contiguous);
}

TEST(Reshape, KeepsFormatFromRankThreeOn) {
  Tensor tensor(Shape{2, 3, 4}, DType::f32, Format::channels_last);
  tensor.reshape(Shape{2, 3, 4, 5});
  EXPECT_EQ(tensor.format(), Format::channels_last);
}

TEST(Views, ShareMemoryUnderAnotherShape) {
  Tensor tensor = counting(Shape{2, 6});
  Tensor view = tensor.view(Shape{3, 4});
  EXPECT_EQ(view.shape(), (Shape{3, 4}));
  view.change<float>()[11] = -1;
  EXPECT_EQ(tensor.at(11), -1);
}

TEST(Views, OfUntouchedTensorsShareToo) {
  Tensor tensor(Shape{2, 2});
  Tensor view = tensor.view(Shape{4});
  view.change<float>()[0] = 3;
  EXPECT_EQ(tensor.at(0), 3);
}

TEST(Views, NeedEqualCountsAndContiguousMemory) {
  const Tensor tensor(Shape{2, 6});
  expect_error([&] { tensor.view(Shape{5}); }, {"5", "2x6", "12"});
  const Tensor last(Shape{2, 3, 4}, DType::f32, Format::channels_last);
  expect_error([&] { last.view(Shape{24}); }, {"channels_last", "contiguous()"});
}

TEST(Bind, PlacesTensorsInOneMemory) {
  auto memory = std::make_shared<Memory>(64);
  Tensor left(Shape{4}), right(Shape{2}, DType::f64);
  left.bind(memory);
  right.bind(memory, 16);
  left.change<float>()[3] = 4;
  right.change<double>()[1] = 2;
  EXPECT_EQ(static_cast<const float*>(memory->access(Access::read))[3], 4);
  EXPECT_EQ(static_cast<const double*>(memory->access(Access::read))[3], 2);
  EXPECT_FALSE(left.same_memory(right));
  left.unbind();
  EXPECT_EQ(left.at(3), 0);
}

TEST(Bind, RefusesWhatDoesNotFit) {
  auto memory = std::make_shared<Memory>(64);
  Tensor tensor(Shape{4});
  expect_error([&] { tensor.bind(memory, 49); }, {"16 bytes", "at 49", "64"});
  expect_error([&] { tensor.bind(memory, 2); }, {"f32", "byte 2", "multiple of 4"});
  expect_error([&] { tensor.bind(nullptr); }, {"unbind"});
  tensor.bind(memory, 48);
  tensor.reshape(Shape{5});  // grows past the end: takes memory of its own
  EXPECT_FALSE(tensor.has_memory());
}

TEST(Bind, OverwritingAPartKeepsTheRest) {
  FakeDevice device;
  auto memory = std::make_shared<Memory>(32);
  Tensor whole(Shape{8}), part(Shape{4});
  whole.bind(memory);
  part.bind(memory, 16);
  whole.overwrite<float>(&device)[0] = 7;
  part.overwrite<float>()[0] = 8;
  EXPECT_EQ(whole.at(0), 7);
  EXPECT_EQ(whole.at(4), 8);
}

TEST(SetLayout, ChangesTypeAndFormat) {
  Tensor tensor(Shape{1, 3, 2, 2});
  tensor.change<float>();
  tensor.set_layout(DType::f64, Format::blocked8);
  EXPECT_EQ(tensor.dtype(), DType::f64);
  EXPECT_EQ(tensor.format(), Format::blocked8);
  EXPECT_FALSE(tensor.has_memory());  // the old one was too small
  EXPECT_EQ(tensor.bytes(), 8 * 4 * sizeof(double));
}

TEST(Fill, SetsEveryElementOfEveryType) {
  for (const DType dtype :
       {DType::f32, DType::f64, DType::bf16, DType::f16, DType::u8, DType::i32, DType::i64}) {
    Tensor tensor(Shape{5}, dtype);
    tensor.fill(3);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(tensor.at(i), 3) << to_string(dtype);
    tensor.fill(0);
    EXPECT_EQ(tensor.at(4), 0) << to_string(dtype);
  }
}

TEST(Fill, LeavesPaddingZero) {
  Tensor tensor(Shape{2, 11, 3}, DType::f32, Format::blocked8);
  tensor.fill(2);
  const auto values = tensor.values<float>();
  double sum = 0;
  for (const float value : values) sum += value;
  EXPECT_EQ(sum, 2 * 11 * 3 * 2);
  EXPECT_EQ(tensor.at(2 * 11 * 3 - 1), 2);
  EXPECT_EQ(values.back(), 0);
}

TEST(Fill, WithZeroStaysOnTheDevice) {
  FakeDevice device;
  Tensor tensor(Shape{4});
  tensor.overwrite<float>(&device)[1] = 5;
  tensor.fill(0);
  EXPECT_EQ(tensor.read<float>(&device)[1], 0);
  EXPECT_EQ(device.uploads + device.downloads, 0);
}

TEST(At, ReadsInLogicalOrderWhateverTheFormat) {
  const Tensor tensor = counting(Shape{2, 9, 3, 2});
  for (const Format format : {Format::channels_last, Format::blocked8, Format::blocked16}) {
    const Tensor other = tensor.to(DType::f32, format);
    for (int64_t i = 0; i < tensor.count(); ++i) {
      ASSERT_EQ(other.at(i), static_cast<double>(i)) << to_string(format);
    }
  }
  expect_error([&] { tensor.at(108); }, {"108", "2x9x3x2"});
  expect_error([&] { tensor.at(-1); }, {"-1"});
}

TEST(Contiguous, IsAViewWhereNothingNeedsToMove) {
  const Tensor tensor = counting(Shape{1, 2, 3});
  EXPECT_TRUE(tensor.contiguous().same_memory(tensor));
  const Tensor last = tensor.to(DType::f32, Format::channels_last);
  EXPECT_THAT(last.contiguous().values<float>(), ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(CopyFrom, NeedsEqualShapes) {
  Tensor tensor(Shape{2, 3});
  expect_error([&] { tensor.copy_from(Tensor(Shape{3, 2})); }, {"3x2", "2x3"});
}

TEST(CopyFrom, ItselfChangesNothing) {
  Tensor tensor = counting(Shape{3});
  tensor.copy_from(tensor);
  EXPECT_THAT(tensor.values<float>(), ElementsAre(0, 1, 2));
}

TEST(CopyFrom, FetchesTheSourceFromItsDevice) {
  FakeDevice device;
  Tensor source(Shape{2}), target(Shape{2});
  source.overwrite<float>(&device)[1] = 6;
  target.overwrite<float>(&device);
  target.copy_from(source);
  EXPECT_EQ(target.at(1), 6);
  EXPECT_EQ(device.downloads, 1);  // the source; the target was overwritten
  EXPECT_EQ(target.read<float>(&device)[1], 6);
}

TEST(CopyFrom, ConvertsToIntegersByTruncationAndClamping) {
  Tensor tensor(Shape{7});
  float* values = tensor.overwrite<float>();
  const float inputs[] = {-3.7f, 2.9f, 300, 1e30f, -1e30f, std::numeric_limits<float>::quiet_NaN(),
                          255.5f};
  std::copy(std::begin(inputs), std::end(inputs), values);
  EXPECT_THAT(tensor.to(DType::u8, Format::contiguous).values<uint8_t>(),
              ElementsAre(0, 2, 255, 255, 0, 0, 255));
  EXPECT_THAT(tensor.to(DType::i32, Format::contiguous).values<int32_t>(),
              ElementsAre(-3, 2, 300, std::numeric_limits<int32_t>::max(),
                          std::numeric_limits<int32_t>::min(), 0, 255));
  EXPECT_THAT(tensor.to(DType::i64, Format::contiguous).values<int64_t>(),
              ElementsAre(-3, 2, 300, std::numeric_limits<int64_t>::max(),
                          std::numeric_limits<int64_t>::min(), 0, 255));
}

TEST(CopyFrom, ClampsBetweenIntegers) {
  Tensor tensor(Shape{3}, DType::i64);
  int64_t* values = tensor.overwrite<int64_t>();
  values[0] = int64_t{1} << 40;
  values[1] = -7;
  values[2] = 200;
  EXPECT_THAT(tensor.to(DType::i32, Format::contiguous).values<int32_t>(),
              ElementsAre(std::numeric_limits<int32_t>::max(), -7, 200));
  EXPECT_THAT(tensor.to(DType::u8, Format::contiguous).values<uint8_t>(), ElementsAre(255, 0, 200));
}

// Two images of 1 x 2 positions with 3 of 5 channels.
TEST(RowsOfAWiderTensor, AreReadAsOneTensor) {
  FakeDevice device;
  Tensor whole(Shape{2, 5, 1, 2}, DType::f32, Format::channels_last);
  float* const values = whole.overwrite<float>();
  std::iota(values, values + whole.count(), 0.0F);
  Tensor part(Shape{2, 3, 1, 2}, DType::f32, Format::channels_last);
  part.bind_rows(whole.memory(), sizeof(float), 4, 5 * sizeof(float));
  EXPECT_EQ(part.row_stride(), 5 * sizeof(float));
  const float expected[] = {1, 6, 2, 7, 3, 8, 11, 16, 12, 17, 13, 18};
  for (int64_t i = 0; i < part.count(); ++i) EXPECT_EQ(part.at(i), expected[i]);
  EXPECT_THAT(part.to(DType::f32, Format::contiguous).values<float>(),
              testing::ElementsAreArray(expected));
  EXPECT_THAT(part.contiguous().values<float>(), testing::ElementsAreArray(expected));
  EXPECT_THAT(part.to(DType::f32, Format::channels_last).values<float>(),
              ElementsAre(1, 2, 3, 6, 7, 8, 11, 12, 13, 16, 17, 18));
  EXPECT_EQ(static_cast<const float*>(part.read_rows(&device))[5], 6);
  // The first range begins where the whole does.
  Tensor first(Shape{2, 1, 1, 2}, DType::f32, Format::channels_last);
  first.bind_rows(whole.memory(), 0, 4, 5 * sizeof(float));
  EXPECT_FALSE(first.same_memory(whole));
  EXPECT_TRUE(first.same_memory(Tensor(first)));
}

// What does not know of the gaps would take the values of others.
TEST(RowsOfAWiderTensor, NoOtherAccess) {
  Tensor whole(Shape{4, 5}), part(Shape{4, 3});
  whole.overwrite<float>();
  part.bind_rows(whole.memory(), 0, 4, 5 * sizeof(float));
  const auto refused = [](const auto& access) {
    expect_error(access, {"4x3", "rows lie apart", "to()"});
  };
  refused([&] { part.read<float>(); });
  refused([&] { part.change<float>(); });
  refused([&] { part.overwrite<float>(); });
  refused([&] { part.changing<float>(); });
  refused([&] { part.values<float>(); });
  refused([&] { part.read_bytes(); });
  refused([&] { part.overwrite_bytes(); });
  refused([&] { part.fill(0); });
  refused([&] { part.view(Shape{12}); });
  refused([&] { part.copy_from(Tensor(Shape{4, 3})); });
  refused([&] { copy(ComputeDevice(), part, whole); });
}

TEST(RowsOfAWiderTensor, EndWithTheShapeOrTheMemory) {
  Tensor whole(Shape{4, 5});
  whole.overwrite<float>();
  for (int way = 0; way < 4; ++way) {
    Tensor part(Shape{4, 3});
    part.bind_rows(whole.memory(), 0, 4, 5 * sizeof(float));
    if (way == 0) part.reshape(Shape{3, 3});
    if (way == 1) part.set_layout(DType::f32, Format::contiguous);
    if (way == 2) part.unbind();
    if (way == 3) part.bind(whole.memory());
    EXPECT_EQ(part.row_stride(), 0U);
    EXPECT_EQ(part.has_memory(), way == 3);
    part.fill(1);
    EXPECT_EQ(part.values<float>()[1], 1);
  }
}

TEST(RowsOfAWiderTensor, Errors) {
  Tensor whole(Shape{4, 5}), part(Shape{4, 3});
  whole.overwrite<float>();
  const auto refused = [&](size_t offset, int64_t rows, size_t stride,
                           std::initializer_list<std::string_view> words) {
    expect_error([&] { part.bind_rows(whole.memory(), offset, rows, stride); }, words);
  };
  expect_error([&] { part.bind_rows(nullptr, 0, 4, 20); }, {"no memory"});
  refused(0, 5, 20, {"4x3", "5 rows"});
  refused(0, 0, 20, {"4x3", "0 rows"});
  refused(0, 4, 8, {"rows of 12 bytes", "8 bytes apart"});
  refused(2, 4, 20, {"byte 2", "multiples of 4"});
  refused(0, 4, 22, {"22 bytes apart"});
  refused(12, 4, 20, {"4 rows", "12", "80 bytes"});
  refused(84, 4, 20, {"84", "80 bytes"});
  // Rows without elements are not 0 bytes apart, which would say that the tensor is dense.
  Tensor none(Shape{4, 0});
  expect_error([&] { none.bind_rows(whole.memory(), 0, 4, 0); }, {"0 bytes apart"});
  part.bind_rows(whole.memory(), 8, 4, 20);
}

TEST(Names, OfTypesAndFormats) {
  EXPECT_EQ(to_string(DType::bf16), "bf16");
  EXPECT_EQ(to_string(DType::u8), "u8");
  EXPECT_EQ(to_string(Format::channels_last), "channels_last");
  EXPECT_EQ(to_string(Format::blocked16), "blocked16");
  EXPECT_EQ(block_of(Format::blocked8), 8);
  EXPECT_EQ(block_of(Format::channels_last), 1);
}

}  // namespace
}  // namespace crema
