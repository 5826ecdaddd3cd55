// Weights of a binary file whose values stay in the file until they are copied to where they
// belong.
//
// To read a file as one message takes memory for all values twice, in the message and in the net,
// and most of the time that a net needs to begin. Here, the message has everything but long lists
// of values, and load() reads those into a tensor.
#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "crema/tensor.hpp"
#include "model/open_file.hpp"
#include "proto/net.pb.h"

namespace crema {

class StoredWeights {
 public:
  /// Null for a file that has to be read as a whole: HDF5, a file that is damaged or no weights
  /// file, which read_weights() has words for, or one without long lists of values. Gradients in
  /// the file are passed over.
  static std::unique_ptr<StoredWeights> open(const std::string& path);

  /// All layers; copies of their blobs know where their values are, too.
  NetParameter& message() { return message_; }
  /// As blob_count() and load_values() (model/blob_message.hpp), also for values in the message.
  int64_t count(const BlobProto& blob) const;
  void load(const BlobProto& blob, Tensor& to) const;
  /// Waits until the whole file has been read, which another thread does, and throws the Error of a
  /// file whose contents do not fit its checksum.
  void check();

 private:
  struct Piece {
    int64_t at = 0, count = 0;  // place in the file in bytes; number of f32
  };
  class Scanner;

  explicit StoredWeights(const std::string& path) : path_(path), file_(path, O_RDONLY) {}
  bool read();
  const Piece* piece_of(const BlobProto& blob) const;

  std::string path_;
  OpenFile file_;
  NetParameter message_;
  std::vector<Piece> pieces_;
  std::future<bool> fits_;  // its checksum; not valid: it has none
};

}  // namespace crema
