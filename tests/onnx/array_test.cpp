#include "onnx/operators/array.hpp"

#include <cmath>

#include "onnx/operator_use.hpp"
#include "support/expect_error.hpp"

namespace crema::onnx {
namespace {

TEST(Array, IntegersWrapAroundAndKeepTheirBits) {
  expect_integers(integers({3}, {300, -1, 128}, TensorProto::UINT8), TensorProto::UINT8, {3},
                  {44, 255, 128});
  expect_integers(integers({2}, {200, -129}, TensorProto::INT8), TensorProto::INT8, {2},
                  {-56, 127});
  expect_integers(integers({1}, {-1}, TensorProto::UINT64), TensorProto::UINT64, {1}, {-1});
  EXPECT_EQ(integers({1}, {-1}, TensorProto::UINT64).at(0), 18446744073709551616.0);
}

TEST(Array, CastsGoToTheNearestNumber) {
  const double inf = kInf;
  const Array x = floats({6}, {1.9, -1.9, 300, -300, inf, std::nan("")});
  expect_integers(x.cast(TensorProto::INT8), TensorProto::INT8, {6}, {1, -1, 127, -128, 127, 0});
  expect_integers(x.cast(TensorProto::UINT8), TensorProto::UINT8, {6}, {1, 0, 255, 0, 255, 0});
  expect_integers(x.cast(TensorProto::INT64), TensorProto::INT64, {6}, {1, -1, 300, -300, kMax, 0});
  expect_integers(x.cast(TensorProto::BOOL), TensorProto::BOOL, {6}, {1, 1, 1, 1, 1, 1});
  expect_integers(integers({2}, {300, -1}).cast(TensorProto::UINT8), TensorProto::UINT8, {2},
                  {44, 255});
}

// 2049 / 2048 lies between two float16; with a bit far below, it is nearer to the upper one. By way
// of float, that bit is lost, and the tie goes to the lower, even one.
TEST(Array, DoublesAreRoundedToHalvesOnce) {
  const double tie = 2049.0 / 2048;
  const Array x = floats({3}, {tie, tie + 0x1p-40, tie - 0x1p-40}, TensorProto::DOUBLE);
  expect_array(x.cast(TensorProto::FLOAT16), {3}, {1, 1 + 0x1p-10, 1});
}

TEST(Array, TakesElementsAndZeros) {
  const Array x = floats({3}, {1, 2, 3});
  const std::vector<int64_t> sources{2, -1, 0, 0};
  expect_array(x.taken({2, 2}, sources), {2, 2}, {3, 0, 1, 1});
  const std::vector<int64_t> outside{3};
  expect_error([&] { x.taken({1}, outside); }, {"element 3", "3"});
  const std::vector<int64_t> far{-2};
  expect_error([&] { x.taken({1}, far); }, {"element -2"});
}

TEST(Array, RefusesSizesThatDoNotFit) {
  expect_error([] { Array(TensorProto::FLOAT, Shape{int64_t{1} << 32}); }, {"4294967296"});
  expect_error([] { Array(TensorProto::FLOAT, Shape{0, kMax}); }, {"elements are supported"});
  expect_error([] { Array(TensorProto::FLOAT, {2}, std::vector<std::byte>(7)); },
               {"8", "bytes, not 7"});
  expect_error([] { Array(TensorProto::STRING, Shape{1}); }, {"STRING"});
  expect_error([] { floats({2}, {1}).reshaped({3}); }, {"elements, not 1"});
}

TEST(Array, BroadcastsAsNumpyDoes) {
  EXPECT_EQ(broadcast({2, 1, 4}, {3, 1}), (Shape{2, 3, 4}));
  EXPECT_EQ(broadcast({}, {0, 3}), (Shape{0, 3}));
  EXPECT_EQ(broadcast({1}, {0}), (Shape{0}));
  expect_error([] { broadcast({2, 3}, {4}); }, {"2x3", "4", "do not broadcast"});
  EXPECT_EQ(broadcast_sources({2, 1}, {2, 2, 3}),
            (std::vector<int64_t>{0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1}));
  expect_error([] { broadcast_sources({3}, {1}); }, {"does not broadcast"});
}

TensorProto tensor(int type, const std::vector<int64_t>& dims) {
  TensorProto message;
  message.set_name("w");
  message.set_data_type(type);
  for (const int64_t dim : dims) message.add_dims(dim);
  return message;
}

TEST(Array, ReadsValuesWhereverTheyLie) {
  TensorProto message = tensor(TensorProto::FLOAT, {2});
  message.add_float_data(1.5F);
  message.add_float_data(-2);
  expect_array(array_of(message), {2}, {1.5, -2});

  message = tensor(TensorProto::FLOAT16, {1});
  message.add_int32_data(0x3c00);
  expect_array(array_of(message), {1}, {1});

  message = tensor(TensorProto::UINT32, {1});
  message.add_uint64_data(4294967295U);
  expect_array(array_of(message), {1}, {4294967295.0});

  message = tensor(TensorProto::BOOL, {3});
  message.set_raw_data(std::string("\0\1\7", 3));
  expect_integers(array_of(message), TensorProto::BOOL, {3}, {0, 1, 1});

  const Array x = integers({2, 1}, {kMin, 5});
  const Array again = array_of(message_of(x, "x"));
  expect_integers(again, TensorProto::INT64, {2, 1}, {kMin, 5});
}

TEST(Array, RefusesDamagedTensors) {
  TensorProto message = tensor(TensorProto::FLOAT, {kMax, 2});
  expect_error([&] { array_of(message); }, {"'w'", "64 bits"});
  message = tensor(TensorProto::FLOAT, {int64_t{1} << 40});
  expect_error([&] { array_of(message); }, {"'w'", "1099511627776"});
  message = tensor(TensorProto::FLOAT, {-1});
  expect_error([&] { array_of(message); }, {"'w'", "-1"});
  message = tensor(TensorProto::FLOAT, {2});
  message.set_raw_data("1234567");
  expect_error([&] { array_of(message); }, {"'w'", "8 bytes", "7"});
  message.set_raw_data("1234");
  message.add_float_data(1);
  expect_error([&] { array_of(message); }, {"'w'", "twice"});
  message = tensor(TensorProto::STRING, {1});
  expect_error([&] { array_of(message); }, {"'w'", "STRING"});
  message = tensor(99, {1});
  expect_error([&] { array_of(message); }, {"type 99"});
  message = tensor(TensorProto::FLOAT, {1});
  message.set_data_location(TensorProto::EXTERNAL);
  expect_error([&] { array_of(message); }, {"'w'", "another file"});
  message = tensor(TensorProto::FLOAT, std::vector<int64_t>(100000, 1));
  expect_error([&] { array_of(message); }, {"'w'", "100000 axes"});
}

}  // namespace
}  // namespace crema::onnx
