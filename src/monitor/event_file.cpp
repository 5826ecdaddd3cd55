#include "monitor/event_file.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "crema/error.hpp"
#include "monitor/crc32c.hpp"
#include "monitor/host_name.hpp"
#include "monitor/run_folder.hpp"

namespace crema {
namespace fs = std::filesystem;
namespace {

constexpr size_t kHead = 12, kTail = 4;

void add_little(std::string& bytes, uint64_t value, int count) {
  for (int i = 0; i < count; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xFFU);
}

uint64_t read_little(std::string_view bytes, int count) {
  uint64_t value = 0;
  for (int i = count; i-- > 0;)
    value = value << 8 | static_cast<unsigned char>(bytes[static_cast<size_t>(i)]);
  return value;
}

/// The seconds that the names of the event files in the folder have, the greatest; 0 without one.
int64_t last_seconds(const std::string& folder) {
  int64_t last = 0;
  std::error_code failed;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(kEventsPrefix)) continue;
    int64_t seconds = 0;
    std::from_chars(name.data() + kEventsPrefix.size(), name.data() + name.size(), seconds);
    last = std::max(last, seconds);
  }
  return last;
}

}  // namespace

std::string event_record(std::string_view event) {
  std::string record;
  record.reserve(kHead + event.size() + kTail);
  add_little(record, event.size(), 8);
  add_little(record, masked_crc32c(record), 4);
  record += event;
  add_little(record, masked_crc32c(event), 4);
  return record;
}

std::vector<tensorboard::Event> read_events(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream read;
  if (!file.is_open() || !(read << file.rdbuf()))
    throw Error("cannot read the events '", path, "'").about(path);
  const std::string all = std::move(read).str();
  std::vector<tensorboard::Event> events;
  for (std::string_view rest = all; rest.size() >= kHead + kTail;) {
    const uint64_t length = read_little(rest, 8);
    // A length that is damaged leads nowhere.
    if (read_little(rest.substr(8), 4) != masked_crc32c(rest.substr(0, 8)) ||
        length > rest.size() - kHead - kTail)
      break;
    const std::string_view data = rest.substr(kHead, length);
    const bool whole = read_little(rest.substr(kHead + length), 4) == masked_crc32c(data);
    tensorboard::Event event;
    if (whole && event.ParseFromArray(data.data(), static_cast<int>(data.size())))
      events.push_back(std::move(event));
    rest.remove_prefix(kHead + length + kTail);
  }
  return events;
}

int EventFile::open(const std::string& folder) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const int64_t seconds = std::max(std::chrono::duration_cast<std::chrono::seconds>(now).count(),
                                   last_seconds(folder) + 1);
  std::array<char, 32> digits;  // of one width, so that names sort by time
  std::snprintf(digits.data(), digits.size(), "%010lld", static_cast<long long>(seconds));
  const int reason = file_.open(
      file_of_run(folder, text(kEventsPrefix, digits.data(), ".", host_name(), ".", ::getpid())),
      false);
  if (reason != 0) return reason;
  tensorboard::Event first;
  first.set_file_version("brain.Event:2");
  return append(0, first);
}

int EventFile::append(int64_t step, tensorboard::Event& event) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  event.set_wall_time(std::chrono::duration<double>(now).count());
  event.set_step(step);
  return file_.append(event_record(event.SerializeAsString()));
}

}  // namespace crema
