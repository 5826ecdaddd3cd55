// HDF5 files as other programs write them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "crema/shape.hpp"

namespace crema::test {

/// flag: an enumeration of FALSE and TRUE over i8, as h5py writes booleans. bits: bytes of bits.
enum class Hdf5Kind : uint8_t { u8, i32, i64, u64, f32, f64, text, flag, bits };

/// Adds an array to the file, which is made if there is none. Does nothing in a build without HDF5.
void add_hdf5(const std::string& path, const std::string& name, Hdf5Kind kind, const Shape& shape,
              const std::vector<double>& values);
/// The same for integers that have no exact value in f64.
void add_hdf5_integers(const std::string& path, const std::string& name, const Shape& shape,
                       const std::vector<uint64_t>& values);
/// Adds a text as an attribute of the root group, of variable or fixed length.
void add_hdf5_attribute(const std::string& path, const std::string& name, const std::string& text,
                        bool variable);
/// Adds a name for what has the name `target` in the file, or in `other`, if that is not empty.
void link_hdf5(const std::string& path, const std::string& name, const std::string& target,
               const std::string& other = "");

}  // namespace crema::test
