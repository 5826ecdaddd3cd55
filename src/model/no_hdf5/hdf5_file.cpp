// In place of HDF5, in a build without it.
#include "model/hdf5_file.hpp"

#include "crema/error.hpp"

namespace crema {
namespace {

[[noreturn]] void fail(const std::string& path) {
  throw Error("cannot open '", path,
              "': this build cannot read or write HDF5 files, since it was configured with "
              "CREMA_HDF5=OFF; build with CREMA_HDF5=ON (on Debian and Ubuntu: apt install "
              "libhdf5-dev), or use the other formats: LMDB databases for data, snapshot_format: "
              "BINARYPROTO for snapshots");
}

}  // namespace

bool has_hdf5() { return false; }

bool restore_hdf5_mark(const std::string& path) { fail(path); }

struct Hdf5Reader::State {};
struct Hdf5Writer::State {};

Hdf5Reader::Hdf5Reader(const std::string& path, Verify) { fail(path); }
Hdf5Reader::~Hdf5Reader() = default;
Shape Hdf5Reader::shape(const std::string& name) const { fail(name); }
std::vector<Hdf5Reader::Entry> Hdf5Reader::entries(const std::string& group) const { fail(group); }
DType Hdf5Reader::dtype(const std::string& name) const { fail(name); }
Tensor Hdf5Reader::read(const std::string& name, DType) const { fail(name); }
std::string Hdf5Reader::text(const std::string& name) const { fail(name); }
std::string Hdf5Reader::bytes(const std::string& name) const { fail(name); }
std::string Hdf5Reader::attribute(const std::string& name) const { fail(name); }

Hdf5Writer::Hdf5Writer(const std::string& path, bool) { fail(path); }
Hdf5Writer::~Hdf5Writer() = default;
void Hdf5Writer::append(const std::string& name, const Tensor&) { fail(name); }
void Hdf5Writer::put(const std::string& name, const Tensor&) { fail(name); }
void Hdf5Writer::put(const std::string& name, int32_t) { fail(name); }
void Hdf5Writer::put_text(const std::string& name, const std::string&) { fail(name); }
void Hdf5Writer::put_texts(const std::string& name, const std::vector<std::string>&) { fail(name); }
void Hdf5Writer::put_bytes(const std::string& name, const std::string&) { fail(name); }
void Hdf5Writer::put_attribute(const std::string& name, const std::string&) { fail(name); }
void Hdf5Writer::make_group(const std::string& name) { fail(name); }
void Hdf5Writer::sync() {}
void Hdf5Writer::finish() {}

}  // namespace crema
