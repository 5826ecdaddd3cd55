#include "data/images/opencv/error_output.hpp"

#include <iostream>
#include <mutex>
#include <streambuf>
#include <string_view>

namespace crema {
namespace {

thread_local std::string* collecting = nullptr;  // of this thread

/// Stands before the buffer of std::cerr: a thread that collects writes to its own string.
class Divider final : public std::streambuf {
 public:
  explicit Divider(std::streambuf* behind) : behind_(behind) {}

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
  std::streambuf* behind_;
};

/// Once: the divider stays, since other threads may be writing to it. A program that sets its own
/// buffer afterwards keeps it: it may hand its text to the divider, and it ends before the divider,
/// so the divider must not stand before it.
void divide() {
  static std::once_flag divided;
  std::call_once(divided, [] { std::cerr.rdbuf(new Divider(std::cerr.rdbuf())); });
}

}  // namespace

ErrorOutput::ErrorOutput() {
  divide();
  collecting = &collected_;
}

ErrorOutput::~ErrorOutput() { collecting = nullptr; }

std::string ErrorOutput::text() const {
  // "imdecode_(''): can't read data: OpenCV(4.6.0) ./a.cpp:9: error: (-2:X) what is wrong in
  // function 'f'", or "[ WARN:0@0.1] global ./a.cpp (9) f what is wrong"
  std::string line = collected_.substr(0, collected_.find('\n'));
  const auto drop_to = [&line](std::string_view end) {
    if (const size_t at = line.find(end); at != std::string::npos) line.erase(0, at + end.size());
  };
  if (line.starts_with('[')) {
    drop_to(") ");
    drop_to(" ");
  }
  for (const char* end : {"can't read header: ", "can't read data: ", ": error: "}) drop_to(end);
  if (line.starts_with('(')) drop_to(") ");
  if (const size_t at = line.rfind(" in function '"); at != std::string::npos) line.erase(at);
  while (!line.empty() && (line.back() == ' ' || line.back() == '\r')) line.pop_back();
  return line;
}

}  // namespace crema
