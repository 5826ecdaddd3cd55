#include "support/database.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "crema/error.hpp"
#include "data/databases/database_writer.hpp"
#include "data/images/image_codec.hpp"

namespace crema::test {

ScratchFolder::ScratchFolder() {
  static std::atomic<int> number = 0;
  path_ = std::filesystem::temp_directory_path() /
          text("crema_test_", ::getpid(), "_", number.fetch_add(1));
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

void write_database(const std::string& path, const Records& records, DatabaseKind kind) {
  const auto writer = make_database_writer(kind, path);
  for (const auto& [key, value] : records) writer->put(key, value);
  writer->finish();
}

Records read_database(const std::string& path) {
  const auto source = open_database({.path = path});
  const auto reader = source->reader(ReadOrder::forward);
  Records records;
  for (int64_t i = 0; i < source->count(); ++i) {
    const Record record = reader->read(i);
    records.emplace_back(record.key, record.value);
  }
  return records;
}

int different_records(RecordReader& reader, const Records& expected) {
  int different = 0;
  int64_t index = 0;
  for (const auto& [key, value] : expected) {
    const Record record = reader.read(index++);
    different += record.key != key || record.value != value;
  }
  return different;
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

Records counting_records(int count, int channels, int height, int width) {
  Records records;
  for (int i = 0; i < count; ++i) {
    char key[16];
    std::snprintf(key, sizeof key, "%08d", i);
    records.emplace_back(key, byte_datum(channels, height, width, i, i).SerializeAsString());
  }
  return records;
}

void write_counting_database(const std::string& path, int count, int channels, int height,
                             int width) {
  write_database(path, counting_records(count, channels, height, width));
}

std::string tar_member(const std::string& path, const std::string& bytes) {
  std::string header(512, '\0');
  const auto put = [&](size_t at, const std::string& text) {
    std::ranges::copy(text, header.begin() + static_cast<ptrdiff_t>(at));
  };
  const auto octal = [](size_t number, int digits) {
    char text[32];
    std::snprintf(text, sizeof text, "%0*zo", digits, number);
    return std::string(text);
  };
  put(0, path);
  put(100, "0000644");
  put(108, "0000000");
  put(116, "0000000");
  put(124, octal(bytes.size(), 11));
  put(136, "00000000000");
  put(148, "        ");
  put(156, "0");  // a regular file
  put(257, std::string("ustar\00000", 8));
  size_t sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  put(148, octal(sum, 6));
  header[154] = '\0';
  const size_t rest = (512 - bytes.size() % 512) % 512;
  return header + bytes + std::string(rest, '\0');
}

std::string tar(const Records& members) {
  std::string file;
  for (const auto& [path, bytes] : members) file += tar_member(path, bytes);
  return file + std::string(1024, '\0');
}

std::string ppm(int height, int width, const std::string& pixels) {
  return text("P6\n", width, " ", height, "\n255\n", pixels);
}

std::string pgm(int height, int width, const std::string& pixels) {
  return text("P5\n", width, " ", height, "\n255\n", pixels);
}

std::string encoded(const std::string& file, const std::string& extension) {
  ImageCodec codec;
  return ImageCodec::encode(codec.decode(file, ColorMode::as_stored), extension);
}

}  // namespace crema::test
