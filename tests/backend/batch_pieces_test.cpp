// Batches in pieces: which splits there are, their names, and that a sum over pieces is that over
// the batch.
#include "backend/batch_pieces.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace crema {
namespace {

TEST(BatchPieces, HaveAsManyImagesAndBeginOnABoundary) {
  EXPECT_EQ(piece_counts(8, {16}), (std::vector<int64_t>{2, 4, 8}));
  EXPECT_EQ(piece_counts(12, {64, 32}), (std::vector<int64_t>{2, 4}));
  EXPECT_EQ(piece_counts(7, {16}), std::vector<int64_t>());
  // 4 images of 6 bytes do not end on a boundary of 16.
  EXPECT_EQ(piece_counts(16, {6}), (std::vector<int64_t>{2}));
}

TEST(BatchPieces, AreInTheNameOfAWay) {
  const std::string whole = "forward fused engine 11 k2=4";
  EXPECT_EQ(name_in_pieces(1, whole), whole);
  EXPECT_EQ(name_in_pieces(4, whole), "4 pieces, " + whole);
  EXPECT_EQ(pieces_of_name("4 pieces, " + whole), std::pair(int64_t{4}, whole));
  EXPECT_EQ(pieces_of_name(whole), std::pair(int64_t{1}, whole));
  EXPECT_EQ(pieces_of_name(""), std::pair(int64_t{1}, std::string()));
  EXPECT_EQ(pieces_of_name("4 engines"), std::pair(int64_t{1}, std::string("4 engines")));
}

TEST(BatchPieces, SumUpToTheBatch) {
  constexpr int64_t kImages = 8, kValues = 3;
  std::vector<float> x(kImages * kValues), y(x.size());
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  for (const int64_t pieces : {1, 2, 4}) {
    const int64_t images = kImages / pieces;
    const size_t bytes = static_cast<size_t>(images * kValues) * sizeof(float);
    float sum = 100;
    each_piece(pieces, 0.5F, [&](int64_t piece, float beta) {
      const void* const whole = x.data();
      const auto* const from = static_cast<const float*>(piece_at(whole, piece, bytes));
      float part = 0;
      for (int64_t i = 0; i < images * kValues; ++i) part += from[i];
      sum = beta * sum + part;
    });
    EXPECT_EQ(sum, 50 + 276) << pieces;
  }
  EXPECT_EQ(piece_at(static_cast<const void*>(nullptr), 3, 16), nullptr);
}

}  // namespace
}  // namespace crema
