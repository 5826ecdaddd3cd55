// The data file of an LMDB: checked, then read by LMDB, which trusts its pages.
#include <filesystem>

#include "data/record_source.hpp"
#include "fuzz/target.hpp"

using namespace crema;

int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t count) {
  std::filesystem::create_directory(fuzz::working_folder().path("lmdb"));
  fuzz::write_input("lmdb/data.mdb", bytes, count);
  fuzz::attempt([&] {
    const auto source = open_database({.path = fuzz::working_folder().path("lmdb")});
    const auto reader = source->reader(ReadOrder::random);
    static volatile size_t sink;
    for (int64_t i = 0; i < std::min<int64_t>(source->count(), 100); ++i) {
      const Record record = reader->read(i);
      for (const char c : record.value) sink = sink + static_cast<unsigned char>(c);
    }
  });
  return 0;
}
