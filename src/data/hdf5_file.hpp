// HDF5 files: reading arrays, and writing arrays that grow. Built without HDF5, every constructor
// throws an Error that says so.
//
// The C library of HDF5 may serve one thread at a time, so all calls share a mutex. It cannot hold
// back a program that calls the library itself, in another thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "crema/tensor.hpp"

namespace crema {

/// An HDF5 file that is open for reading. `name` of an array may have groups: "data/conv1/0".
class Hdf5Reader {
 public:
  /// Error if there is no such file, or if it is no HDF5 file.
  explicit Hdf5Reader(const std::string& path);
  ~Hdf5Reader();
  Hdf5Reader(const Hdf5Reader&) = delete;
  Hdf5Reader& operator=(const Hdf5Reader&) = delete;

  /// Error, with the nearest name, if there is no such array, or if it does not hold numbers.
  Shape shape(const std::string& name) const;
  /// The whole array in `dtype`, f32 or f64. Error for an integer that has no exact value in it.
  Tensor read(const std::string& name, DType dtype) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Writes an HDF5 file whose arrays grow along axis 0. The file appears under its name in finish(),
/// and not before; until then it is beside it, under the name of unfinished_path().
class Hdf5Writer {
 public:
  /// Error if the file beside cannot be made.
  explicit Hdf5Writer(const std::string& path);
  /// Without finish(): removes what was written.
  ~Hdf5Writer();
  Hdf5Writer(const Hdf5Writer&) = delete;
  Hdf5Writer& operator=(const Hdf5Writer&) = delete;

  /// Adds rows behind those of array `name`, which the first call makes. `rows` is contiguous, f32
  /// or f64. Error unless shape and type of a row are those of the first call.
  void append(const std::string& name, const Tensor& rows);
  /// Writes a whole array of texts. Error if the name is taken.
  void put_texts(const std::string& name, const std::vector<std::string>& texts);
  /// Closes, syncs and renames the file. No append afterwards.
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace crema
