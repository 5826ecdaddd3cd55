// The sums of all ranks. Rank r sums up part r of the elements, in pieces, so that one piece is
// summed while the next one comes. A piece that was sent to its rank is received as a sum in the
// same memory.
#include <algorithm>
#include <limits>
#include <type_traits>
#include <vector>

#include "core/convert.hpp"
#include "crema/error.hpp"
#include "parallel/mpi/operations.hpp"

namespace crema {
namespace {

constexpr size_t kPieceBytes = size_t{256} << 10;
/// Elements of a block that is summed up at once.
constexpr int64_t kBlock = 2048;
/// Numbers of pieces are part of the tags, and every MPI has tags up to 32767.
constexpr int64_t kMostPieces = 8192;
constexpr int kValues = 1, kSums = kValues + static_cast<int>(kMostPieces);

/// T: of the elements. W: of what is moved, T or bfloat16.
template <class T, class W>
class AllReduce : public Operation {
 public:
  AllReduce(MPI_Comm comm, int rank, int size, const Communicator::Reduction& reduction)
      : Operation(comm, rank, size),
        values_(static_cast<T*>(reduction.values)),
        count_(reduction.count),
        factor_(static_cast<T>(reduction.factor)) {
    const int64_t part = (count_ + size - 1) / size;
    piece_ = std::max({static_cast<int64_t>(kPieceBytes / sizeof(W)),
                       (part + kMostPieces - 1) / kMostPieces, int64_t{1}});
  }

  void start() override {
    const int64_t own = first_of(rank_ + 1) - first_of(rank_);
    came_.resize(static_cast<size_t>(own * (size_ - 1)));
    missing_.assign(static_cast<size_t>((own + piece_ - 1) / piece_), size_ - 1);
    if constexpr (kConverts) moved_.resize(static_cast<size_t>(count_));
    for (int step = 1; step < size_; ++step) {
      const int from = (rank_ + size_ - step) % size_;
      for_pieces(rank_, [&](int64_t begin, int64_t end, int number) {
        messages_.receive(from, came_from(from) + (begin - first_of(rank_)), bytes(begin, end),
                          kValues + number, [this, begin, end, number] {
                            if (--missing_[static_cast<size_t>(number)] == 0)
                              finish(begin, end, number);
                          });
      });
    }
    // Not all begin with the same one.
    for (int step = 1; step < size_; ++step) {
      const int to = (rank_ + step) % size_;
      for_pieces(to, [&](int64_t begin, int64_t end, int number) {
        messages_.send(to, packed(begin, end), bytes(begin, end), kValues + number,
                       [this, to, begin, end, number] { take_sums(to, begin, end, number); });
      });
    }
  }

 private:
  static constexpr bool kConverts = !std::is_same_v<T, W>;

  int64_t first_of(int rank) const { return count_ / size_ * rank + count_ % size_ * rank / size_; }

  static size_t bytes(int64_t begin, int64_t end) {
    return static_cast<size_t>(end - begin) * sizeof(W);
  }

  /// body(begin, end, number) for the pieces of the rank's part.
  template <class Body>
  void for_pieces(int rank, const Body& body) const {
    const int64_t end = first_of(rank + 1);
    int number = 0;
    for (int64_t begin = first_of(rank); begin < end; begin += piece_)
      body(begin, std::min(begin + piece_, end), number++);
  }

  /// Where the values of another rank come, of this rank's part.
  W* came_from(int rank) {
    const int64_t own = first_of(rank_ + 1) - first_of(rank_);
    return came_.data() + own * (rank < rank_ ? rank : rank - 1);
  }

  /// Memory of what is moved of these elements.
  W* moved(int64_t begin) {
    if constexpr (kConverts) return moved_.data() + begin;
    if constexpr (!kConverts) return values_ + begin;
  }

  const W* packed(int64_t begin, int64_t end) {
    W* const to = moved(begin);
    if constexpr (kConverts) {
      for (int64_t i = begin; i < end; ++i) to[i - begin] = convert_value<W>(values_[i]);
    }
    return to;
  }

  void unpack(int64_t begin, int64_t end) {
    if constexpr (kConverts) {
      const W* const from = moved(begin);
      for (int64_t i = begin; i < end; ++i) values_[i] = convert_value<T>(from[i - begin]);
    }
  }

  /// All values of a piece of this rank's part are there.
  void finish(int64_t begin, int64_t end, int number) {
    T sums[kBlock];
    for (int64_t at = begin; at < end; at += kBlock) {
      const int64_t count = std::min(kBlock, end - at);
      for (int rank = 0; rank < size_; ++rank) {
        if (rank == rank_) {
          add(values_ + at, count, rank == 0, sums);
        } else {
          add(came_from(rank) + (at - first_of(rank_)), count, rank == 0, sums);
        }
      }
      for (int64_t i = 0; i < count; ++i) values_[at + i] = sums[i] * factor_;
    }
    const W* const result = packed(begin, end);
    unpack(begin, end);  // the others have no more bits than that
    for (int step = 1; step < size_; ++step)
      messages_.send((rank_ + step) % size_, result, bytes(begin, end), kSums + number);
  }

  template <class V>
  static void add(const V* values, int64_t count, bool is_first, T* sums) {
    if (is_first) {
      for (int64_t i = 0; i < count; ++i) sums[i] = convert_value<T>(values[i]);
    } else {
      for (int64_t i = 0; i < count; ++i) sums[i] += convert_value<T>(values[i]);
    }
  }

  void take_sums(int from, int64_t begin, int64_t end, int number) {
    messages_.receive(from, moved(begin), bytes(begin, end), kSums + number,
                      [this, begin, end] { unpack(begin, end); });
  }

  T* values_;
  int64_t count_, piece_ = 1;
  T factor_;
  std::vector<W> came_;       // values of the other ranks, of this rank's part
  std::vector<int> missing_;  // ranks whose values have not come, by piece
  std::vector<W> moved_;      // with another type
};

}  // namespace

std::unique_ptr<Operation> make_all_reduce(MPI_Comm comm, int rank, int size,
                                           const Communicator::Reduction& reduction) {
  if (reduction.dtype == DType::f64)
    return std::make_unique<AllReduce<double, double>>(comm, rank, size, reduction);
  if (reduction.dtype != DType::f32)
    throw Error("elements of ", to_string(reduction.dtype), " cannot be summed over processes");
  if (reduction.as_bf16)
    return std::make_unique<AllReduce<float, bfloat16>>(comm, rank, size, reduction);
  return std::make_unique<AllReduce<float, float>>(comm, rank, size, reduction);
}

}  // namespace crema
