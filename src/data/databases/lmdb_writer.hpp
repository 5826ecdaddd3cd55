// Writes an LMDB database.
#pragma once

#include <lmdb.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/databases/database_folder.hpp"
#include "data/databases/database_writer.hpp"

namespace crema {

class LmdbWriter final : public DatabaseWriter {
 public:
  explicit LmdbWriter(const std::string& path, bool overwrite = false);
  ~LmdbWriter() override;

  void put(std::string_view key, std::string_view value) override;
  void sync() override;
  void finish() override;
  int64_t count() const override { return count_; }

 private:
  struct Entry {
    size_t key_begin, key_size, value_size;
  };
  std::string_view key_of(const Entry& entry) const;
  std::string_view value_of(const Entry& entry) const;

  void open_environment();
  void close() noexcept;
  void write_batch();
  int try_batch(std::string& last_key);
  void check(int code, const char* action) const;

  DatabaseFolder folder_;
  MDB_env* env_ = nullptr;
  size_t map_size_;
  // The batch: keys and values one after the other, since a full map makes it be written again.
  std::string bytes_;
  std::vector<Entry> entries_;
  std::string last_key_;  // greatest one written
  int64_t count_ = 0;
};

}  // namespace crema
