// HDF5 files: reading arrays, writing whole ones and arrays that grow. Built without HDF5, every
// constructor throws an Error that says so.
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
#include "model/binary_format.hpp"

namespace crema {

/// Whether this build can read and write HDF5 files.
bool has_hdf5();

/// Writes the attribute of model/hdf5_checksum.hpp anew to a file that has it, for seal_hdf5().
/// False if the file has none. Error if that fails.
bool restore_hdf5_mark(const std::string& path);

/// An HDF5 file that is open for reading. `name` of an array may have groups: "data/conv1/0".
class Hdf5Reader {
 public:
  /// Error if there is no such file, if it is no HDF5 file, or if its contents do not fit the
  /// checksum that it carries (model/hdf5_checksum.hpp). Files without one are opened.
  /// Verify::nothing opens files that do not fit their checksum, too.
  explicit Hdf5Reader(const std::string& path, Verify verify = Verify::checksum);
  ~Hdf5Reader();
  Hdf5Reader(const Hdf5Reader&) = delete;
  Hdf5Reader& operator=(const Hdf5Reader&) = delete;

  struct Entry {
    std::string name;
    bool is_group = false;  // otherwise an array
  };
  /// What lies in a group ("/": the root), in the order of the names. Error if there is no such
  /// group, and for links to other files.
  std::vector<Entry> entries(const std::string& group) const;

  /// Error, with the nearest name, if there is no such array, or if it does not hold numbers.
  Shape shape(const std::string& name) const;
  /// f64 for an array of f64 or wider, else f32.
  DType dtype(const std::string& name) const;
  /// The whole array in `dtype`, f32 or f64. Error for an integer that has no exact value in it.
  /// An enumeration, as which booleans are written, has the numbers of its members.
  Tensor read(const std::string& name, DType dtype) const;
  /// A text, of one string of fixed or variable length. Error if it is none.
  std::string text(const std::string& name) const;
  /// An array of bytes. Error if it is none.
  std::string bytes(const std::string& name) const;
  /// An attribute of the root group that is a text, of fixed or variable length; "" if there is
  /// none, or none that is a text, or if the file carries no checksum that was verified: a damaged
  /// length would make the library take any memory.
  std::string attribute(const std::string& name) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Writes an HDF5 file as a WholeFile (whole_file.hpp): it appears under its name in finish(), and
/// not before. Groups that names go through are made.
class Hdf5Writer {
 public:
  /// Error if the file beside cannot be made, or is written by this process already.
  /// `with_checksum`: finish() writes the checksum of the contents to an attribute
  /// (model/hdf5_checksum.hpp).
  explicit Hdf5Writer(const std::string& path, bool with_checksum = false);
  /// Without finish(): removes what was written.
  ~Hdf5Writer();
  Hdf5Writer(const Hdf5Writer&) = delete;
  Hdf5Writer& operator=(const Hdf5Writer&) = delete;

  /// Adds rows behind those of array `name`, which the first call makes. `rows` is contiguous, f32
  /// or f64. Error unless shape and type of a row are those of the first call.
  void append(const std::string& name, const Tensor& rows);
  /// Writes a whole array, contiguous, f32 or f64. Error if the name is taken.
  void put(const std::string& name, const Tensor& values);
  /// An array of one i32, of one text, of texts, of bytes.
  void put(const std::string& name, int32_t value);
  void put_text(const std::string& name, const std::string& text);
  void put_texts(const std::string& name, const std::vector<std::string>& texts);
  void put_bytes(const std::string& name, const std::string& bytes);
  /// An attribute of the root group: a text of any length. Before all arrays: those behind the
  /// checksum, which lies near the file's begin.
  void put_attribute(const std::string& name, const std::string& text);
  /// Makes a group unless it is there.
  void make_group(const std::string& name);

  /// Closes and syncs the file, not under its name yet. Nothing is added afterwards.
  void sync();
  /// sync(), unless it was called, and renames the file.
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace crema
