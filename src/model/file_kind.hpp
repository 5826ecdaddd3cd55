// What a file is, told by its first bytes, so that a wrong one is named rather than parsed.
#pragma once

#include <string>
#include <string_view>

namespace google::protobuf {
class Descriptor;
}

namespace crema {

enum class FileKind {
  empty,
  text,
  wide_text,  // UTF-16 or UTF-32
  hdf5,
  image,       // JPEG, PNG, GIF, BMP, TIFF, WebP, JPEG 2000
  compressed,  // gzip, bzip2, xz, zstd, zip, 7z
  // Weights of other frameworks:
  pytorch,      // torch.save(), in its zip or its older form, and TorchScript
  safetensors,  // of Hugging Face
  keras,        // a .keras model; those in HDF5 are `hdf5`
  lmdb,         // an LMDB's data.mdb
  // Texts that stand in the place of a file that was not fetched:
  lfs_pointer,  // of Git LFS
  web_page,     // HTML, or what a server answers in place of a file
  binary,       // anything else; a binary protocol buffer has no mark of its own
};

/// How many bytes kind_of needs to see.
inline constexpr size_t kFileHeadSize = 4096;

/// The kind of a file that begins with `head`.
FileKind kind_of(std::string_view head);

/// How the names of such images end: jpg, png, gif, bmp, tif, webp, jp2, pnm; "" for what is none
/// of them, and is not given to a decoder.
std::string_view image_type(std::string_view head);

/// The kind of a file that can be opened. Throws an Error when it cannot be read.
FileKind kind_of_file(const std::string& path);

/// The kind in words that go behind "is", such as "an HDF5 file".
std::string_view describe(FileKind kind);

/// Whether such a file holds weights of another framework.
bool is_foreign(FileKind kind);

/// What to do with weights of another framework, as "; in Python, ...".
std::string_view way_to_convert();

/// What to do about a kind that stands in the place of another file, as "; run git lfs pull ...";
/// "" for all other kinds.
std::string way_out_of(FileKind kind);

/// Error if the file is such a stand-in; it names what was wanted ("mean_file"). None for other
/// kinds, and where there is no file.
void refuse_stand_in(const std::string& path, std::string_view wanted);

/// What a binary file with such a message is called: "weights file", "solver's state", "mean
/// image", "record of a database"; "binary protocol buffer" for any other message.
std::string_view describe(const google::protobuf::Descriptor& message);

/// The type of the binary protocol buffer in this file, going by its fields: one of those that
/// `describe` has a word for, or null. Reads the fields' tags only, and never throws.
const google::protobuf::Descriptor* guess_message(const std::string& path);

/// Throws an Error unless something that is not a folder can be read at `path`. The message names
/// what was wanted ("net prototxt"), and files nearby that it may have been; `extension`
/// (".prototxt") tells which files in a folder to name. `elsewhere` ends the message about a
/// missing file when no file beside it has a similar name.
void require_file(const std::string& path, std::string_view wanted, std::string_view extension,
                  std::string_view elsewhere = {});

}  // namespace crema
