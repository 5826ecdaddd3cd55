// The checksum that an HDF5 file carries of its own bytes, metadata included: an attribute of its
// root group, which other programs leave alone. Needs no HDF5 library.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace crema {

inline constexpr const char* kHdf5ChecksumName = "crema_checksum";

/// The attribute's three u64: two by which its place in the file is found, and the checksum of all
/// bytes of the file with zeros in its own place. This gives 0 for that one.
std::array<uint64_t, 3> hdf5_checksum_values();

/// Writes the checksum to a file that is complete and has the attribute. `descriptor` is open for
/// reading and writing. Returns 0, or the errno of what failed; EINVAL if there is no attribute.
int seal_hdf5(int descriptor);

enum class Contents : uint8_t {
  unknown,  // the file carries no checksum, or cannot be read
  intact,
  changed,  // they do not fit the checksum
};

Contents hdf5_contents(const std::string& path);

/// The checksum that the file carries, whatever its contents are; none without one.
std::optional<uint64_t> hdf5_carried_checksum(const std::string& path);

}  // namespace crema
