// Writes what a trained net computes of each image of a folder to a NumPy file:
//
//   features deploy.prototxt weights.caffemodel blob folder output
//
// Row i of output.npy, an array (N, D) of float32, has the D values that the blob has for the image
// on line i of output.txt. The images are the files *.pgm of the folder, in the order of their
// names, with the sides of the net's input. The file features.tuning of the current folder keeps
// which engines are the fastest: later runs do not measure them again.
#include <algorithm>
#include <bit>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <span>
#include <string>
#include <vector>

#include "../pgm.hpp"
#include "crema/crema.hpp"

namespace {

namespace fs = std::filesystem;

constexpr int64_t kBatch = 64;  // images in a pass of the net

/// The images of a folder. A folder lists its files in no particular order, so they are sorted: the
/// same folder gives the same rows everywhere.
std::vector<fs::path> images_in(const fs::path& folder) {
  if (!fs::is_directory(folder)) throw crema::Error("'", folder.string(), "' is no folder");
  std::vector<fs::path> images;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.is_regular_file() && entry.path().extension() == ".pgm")
      images.push_back(entry.path());
  if (images.empty()) throw crema::Error("folder '", folder.string(), "' has no file *.pgm");
  std::ranges::sort(images);
  return images;
}

/// A file that appears under its name when it is whole: until finish() it is NAME.part.
class WholeFile {
 public:
  explicit WholeFile(const fs::path& path)
      : path_(path), part_(path.string() + ".part"), file_(part_, std::ios::binary) {
    if (!file_) throw crema::Error("cannot write '", part_.string(), "'");
  }
  ~WholeFile() {
    std::error_code ignored;
    fs::remove(part_, ignored);  // there only if finish() did not rename it
  }
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  void write(std::string_view bytes) { file_.write(bytes.data(), std::ssize(bytes)); }
  void finish() {
    file_.close();
    if (!file_) throw crema::Error("cannot write '", part_.string(), "'; is the disk full?");
    fs::rename(part_, path_);
  }

 private:
  fs::path path_, part_;
  std::ofstream file_;
};

/// What stands before the values in an .npy file of version 1.0, of a multiple of 64 bytes.
std::string npy_header(int64_t rows, int64_t columns) {
  const char order = std::endian::native == std::endian::little ? '<' : '>';
  std::string header = crema::text("{'descr': '", order, "f4', 'fortran_order': False, 'shape': (",
                                   rows, ", ", columns, "), }");
  constexpr size_t before = 10;  // the magic word, the version, and the size of the header
  header.resize((before + header.size() + 64) / 64 * 64 - before - 1, ' ');
  header += '\n';
  const auto size = static_cast<unsigned>(header.size());
  const char low = static_cast<char>(size % 256), high = static_cast<char>(size / 256);
  return std::string("\x93NUMPY\x01", 7) + '\0' + low + high + header;
}

void run(const std::vector<std::string>& args) {
  if (args.size() != 5)
    throw crema::Error("usage: features deploy.prototxt weights.caffemodel blob folder output");
  const std::string& blob = args[2];
  const std::vector<fs::path> images = images_in(args[3]);
  const int64_t count = std::ssize(images);

  // Blobs inside a net share memory, and a layer may write over one at once. What is named in
  // `keep` stays as it is until the next pass.
  // Later runs make the choices of the first: the same images give the same bytes.
  crema::Context context({.tuning_file = crema::user_tuning_file()});
  crema::Net net(args[0], context, {.phase = crema::Phase::test, .keep = {blob}});
  const std::vector<std::string> missing = net.load_weights(args[1]).missing;
  if (!missing.empty())
    throw crema::Error("'", args[1], "' has no weights for ", crema::joined(missing), " of '",
                       args[0], "'; give weights that were trained for this net");
  const std::string input = digit_input(net, args[0]);
  const crema::Shape sample = net.input(input).shape();  // (any, 1, H, W)

  WholeFile features(args[4] + ".npy"), names(args[4] + ".txt");
  for (int64_t first = 0; first < count; first += kBatch) {
    // The last batch may be smaller. A net takes any batch, and plans for each size only once.
    const int64_t batch = std::min(kBatch, count - first);
    net.reshape_input(input, {batch, 1, sample[2], sample[3]});
    const auto pixels = net.input(input).changing<float>();
    for (int64_t i = 0; i < batch; ++i) {
      const fs::path& image = images[static_cast<size_t>(first + i)];
      read_digit(image.string(), sample[2], sample[3], pixels + i * sample.count(2));
      names.write(image.filename().string() + "\n");
    }
    net.forward();
    const crema::Tensor rows = net.output(blob);
    if (rows.shape().rank() == 0 || rows.shape()[0] != batch)
      throw crema::Error("blob '", blob, "' is ", rows.shape().str(), ", not a row for each of ",
                         batch, " images");
    if (first == 0) features.write(npy_header(count, rows.shape().count(1)));
    const auto bytes = std::as_bytes(rows.values<float>());
    features.write({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  features.finish();
  names.finish();
  std::cout << count << " rows in " << args[4] << ".npy, their names in " << args[4] << ".txt\n"
            << std::flush;
  if (!std::cout) throw crema::Error("cannot write to standard output; is the disk full?");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << "features: " << error.what() << "\n";
    return 1;
  }
}
