// Weights and states of solvers on disk, in either published format: a binary protocol buffer, or
// HDF5. A file is read as what its contents are, whatever its name; it is written as HDF5 if its
// name ends in .h5. All of them carry a checksum (binary_format.hpp, hdf5_checksum.hpp).
//
// Both formats say where they come from (Origin in proto/net.proto); HDF5 files in texts that are
// attributes of the root group: origin_program, origin_solver, origin_net, origin_class_name with a
// name a line, and origin_fields with all other fields as a prototxt.
// HDF5, weights: arrays /data/LAYER/INDEX, gradients /diff/LAYER/INDEX, a group for each layer.
// HDF5, states: iter, current_step (one i32 each), learned_net (text), arrays /history/INDEX; and
// `crema`, an array of bytes: a SolverState with all other fields, as a binary protocol buffer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace crema {

class Hdf5Writer;
class NetParameter;
class Origin;
class SolverState;
class WholeFile;

/// Whether a file with this name is written as HDF5.
bool is_hdf5_name(std::string_view path);
/// Whether the file is an HDF5 file, by its contents. False if it cannot be read.
bool is_hdf5_file(const std::string& path);

/// Whether an HDF5 file holds a solver's state, going by its names. Error if it cannot be read.
bool is_hdf5_state(const std::string& path);

/// Both lose what `out` held. Whatever the bytes are, the result is a message or an Error, as for
/// read_binary_proto(): a MemoryError (core/memory_error.hpp) where the file is whole. Weights from
/// HDF5 have an origin, and layers with name and blobs only; a parameter that the file lacks among
/// those of a layer is a blob without shape and values.
void read_weights(const std::string& path, NetParameter& out);
void read_solver_state(const std::string& path, SolverState& out);

/// What an HDF5 file with weights or a state says of where it comes from, from its attributes
/// alone. Empty if it says nothing. Error if it cannot be read, or does not fit its checksum.
Origin read_hdf5_origin(const std::string& path);

/// A checksum of the parameters: of the layers' names, and of shapes and values, without gradients.
/// Both formats of the same weights have the same one.
uint64_t values_checksum(const NetParameter& weights);

struct Hdf5Layer {
  std::string name;
  int parameters;
};
/// The layers that weights in HDF5 shall have. Error for a name that HDF5 cannot have, for two
/// layers with parameters and one name, and for a layer in the place of a parameter of another, as
/// "a/0" is in that of "a". Returns a warning if published tools cannot read them, or "".
std::string check_hdf5_layers(const std::vector<Hdf5Layer>& layers);

/// Both write as write_binary_proto_atomically() does. Error for a layer whose name HDF5 cannot
/// have, and for two layers with parameters and one name.
void write_weights(const std::string& path, const NetParameter& weights);
void write_solver_state(const std::string& path, const SolverState& state);

/// Weights or a state that are on the disk and have no name yet. The files of a snapshot are
/// written so, and get their names together.
class SyncedFile {
 public:
  /// As write_weights() and write_solver_state(), but for the name.
  SyncedFile(const std::string& path, const NetParameter& weights);
  SyncedFile(const std::string& path, const SolverState& state);
  /// Without finish(): removes what was written.
  ~SyncedFile();
  SyncedFile(SyncedFile&&) noexcept;
  SyncedFile& operator=(SyncedFile&&) noexcept;

  /// Gives the file its name. Error if that fails.
  void finish();

 private:
  std::unique_ptr<WholeFile> binary_;
  std::unique_ptr<Hdf5Writer> hdf5_;
};

/// Reads a file with weights or a state, of either format. Error as read_weights() and
/// read_solver_state(), and for other files. Returns whether it carries a checksum.
bool check_snapshot_file(const std::string& path);
/// The checksum that weights carry, in 16 hexadecimal digits, without the parameters being read; ""
/// for a file that carries none or cannot be read.
std::string checksum_of_weights(const std::string& path);
/// Writes the file anew with a checksum of its present contents. Error if it cannot be read, apart
/// from its checksum. False if it is an HDF5 file without a place for one, which stays as it is.
bool renew_checksum(const std::string& path);

}  // namespace crema
