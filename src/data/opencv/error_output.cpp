#include "data/opencv/error_output.hpp"

#include <iostream>
#include <mutex>
#include <streambuf>

namespace crema {
namespace {

thread_local std::string* collecting = nullptr;  // of this thread

/// Stands before the buffer of std::cerr: a thread that collects writes to its own string.
class Divider final : public std::streambuf {
 public:
  void stand_before(std::streambuf* behind) { behind_ = behind; }

 protected:
  int_type overflow(int_type byte) override {
    if (collecting == nullptr) return behind_->sputc(traits_type::to_char_type(byte));
    if (!traits_type::eq_int_type(byte, traits_type::eof()))
      collecting->push_back(traits_type::to_char_type(byte));
    return traits_type::not_eof(byte);
  }
  std::streamsize xsputn(const char* text, std::streamsize size) override {
    if (collecting == nullptr) return behind_->sputn(text, size);
    collecting->append(text, static_cast<size_t>(size));
    return size;
  }
  int sync() override { return collecting == nullptr ? behind_->pubsync() : 0; }

 private:
  std::streambuf* behind_ = nullptr;
};

/// It stays, since other threads may be writing to it. A program that replaces the buffer of
/// std::cerr gets its own.
void divide() {
  static std::mutex mutex;
  static Divider* const divider = new Divider;
  const std::lock_guard guard(mutex);
  if (std::cerr.rdbuf() == divider) return;
  divider->stand_before(std::cerr.rdbuf());
  std::cerr.rdbuf(divider);
}

}  // namespace

ErrorOutput::ErrorOutput() {
  divide();
  collecting = &collected_;
}

ErrorOutput::~ErrorOutput() { collecting = nullptr; }

std::string ErrorOutput::text() const {
  // "imdecode_(''): can't read data: OpenCV(4.6.0) ./modules/...: error: (-2:...) what is wrong"
  std::string line = collected_.substr(0, collected_.find('\n'));
  for (const std::string_view before :
       {") in function", ": error: ", "can't read header: ", "can't read data: "}) {
    const size_t at = line.find(before);
    if (at == std::string::npos) continue;
    if (before == ") in function") continue;
    line = line.substr(at + before.size());
    break;
  }
  while (!line.empty() && (line.back() == ' ' || line.back() == '\r')) line.pop_back();
  return line;
}

}  // namespace crema
