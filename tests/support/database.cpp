#include "support/database.hpp"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "crema/error.hpp"
#include "data/image_codec.hpp"
#include "data/lmdb_writer.hpp"

namespace crema::test {

ScratchFolder::ScratchFolder() {
  static std::atomic<int> number = 0;
  path_ = std::filesystem::temp_directory_path() /
          concat("crema_test_", ::getpid(), "_", number.fetch_add(1));
  std::filesystem::create_directories(path_);
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string ScratchFolder::write(const std::string& name, const std::string& content) const {
  const std::string path = *this / name;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_database(const std::string& path, const Records& records) {
  LmdbWriter writer(path);
  for (const auto& [key, value] : records) writer.put(key, value);
  writer.finish();
}

Records read_database(const std::string& path) {
  const auto source = open_database({.path = path});
  const auto reader = source->reader(Access::forward);
  Records records;
  for (int64_t i = 0; i < source->count(); ++i) {
    const Record record = reader->read(i);
    records.emplace_back(record.key, record.value);
  }
  return records;
}

Datum byte_datum(int channels, int height, int width, int label, int first) {
  Datum datum;
  datum.set_channels(channels);
  datum.set_height(height);
  datum.set_width(width);
  datum.set_label(label);
  std::string& pixels = *datum.mutable_data();
  for (int i = 0; i < channels * height * width; ++i) pixels += static_cast<char>(first + i);
  return datum;
}

void write_counting_database(const std::string& path, int count, int channels, int height,
                             int width) {
  Records records;
  for (int i = 0; i < count; ++i) {
    char key[16];
    std::snprintf(key, sizeof key, "%08d", i);
    records.emplace_back(key, byte_datum(channels, height, width, i, i).SerializeAsString());
  }
  write_database(path, records);
}

std::string ppm(int height, int width, const std::string& pixels) {
  return concat("P6\n", width, " ", height, "\n255\n", pixels);
}

std::string pgm(int height, int width, const std::string& pixels) {
  return concat("P5\n", width, " ", height, "\n255\n", pixels);
}

std::string encoded(const std::string& file, const std::string& extension) {
  ImageCodec codec;
  codec.decode(file, ColorMode::as_stored);
  return codec.encode(extension);
}

}  // namespace crema::test
