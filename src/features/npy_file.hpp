// Arrays of rows in NumPy's .npy format, version 1.0.
#pragma once

#include <string>

#include "crema/tensor.hpp"
#include "model/whole_file.hpp"

namespace crema {

/// Reads an array of a .npy file, version 1 to 3, in C order: f32 or f64 as they are, other floats
/// and integers up to 32 bits, and bools, as f32; 64-bit integers as f64. Error for another file,
/// other types, Fortran order, and for values that are not there. `what` names it: "--input".
Tensor read_npy(const std::string& path, const std::string& what);
/// Writes the tensor, of f32 or f64, whole or not at all.
void write_npy(const std::string& path, const Tensor& tensor);

class NpyWriter {
 public:
  explicit NpyWriter(const std::string& path) : path_(path), file_(path) {}

  /// Adds rows (N, ...) of f32 or f64 in C order. Error unless shape and type of a row are those of
  /// the first call.
  void append(const Tensor& rows);
  /// As those of WholeFile.
  void sync();
  void finish();

 private:
  std::string header() const;

  std::string path_;
  WholeFile file_;
  bool begun_ = false;
  Shape shape_{0};  // of all rows
  DType dtype_ = DType::f32;
};

}  // namespace crema
