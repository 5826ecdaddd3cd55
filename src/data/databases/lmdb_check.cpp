#include "data/databases/lmdb_check.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "crema/error.hpp"
#include "model/file_kind.hpp"

namespace crema {
namespace {

// The format of LMDB 0.9, in the byte order of the machine. A page begins with a header: its number
// (8 bytes), 2 unused ones, its kind, and the ends of its list of nodes and of its free space. The
// list has the places of the nodes in the page, 2 bytes each.
constexpr size_t kHeader = 16, kNodeHeader = 8;
constexpr uint32_t kMagic = 0xBEEFC0DE, kVersion = 1;
constexpr uint16_t kBranch = 1, kLeaf = 2, kOverflow = 4, kMeta = 8;  // kinds of pages
constexpr uint16_t kKinds = 0x6f;                                     // all their bits
constexpr uint16_t kLarge = 1;        // of a node whose value has pages of its own
constexpr uint16_t kReverseKeys = 2;  // a flag of a table: keys are compared from their ends
constexpr uint64_t kNoPage = ~uint64_t{0};
constexpr uint64_t kLargeFile = uint64_t{1} << 30;
constexpr int kDeepest = 32;  // LMDB's cursors have so many places

/// What the header says of the table of records.
struct Table {
  uint64_t page_size = 0, last_page = 0, transaction = 0;
  uint64_t root = kNoPage, entries = 0;
  uint16_t flags = 0, depth = 0;
};

template <class T>
T number(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

/// The order of keys in a table: by their bytes as unsigned numbers, from their ends on if so told.
bool precedes(std::string_view a, std::string_view b, bool from_end) {
  const auto less = [](char x, char y) {
    return static_cast<unsigned char>(x) < static_cast<unsigned char>(y);
  };
  if (!from_end) return a < b;
  return std::lexicographical_compare(a.rbegin(), a.rend(), b.rbegin(), b.rend(), less);
}

class Checker {
 public:
  explicit Checker(const std::string& folder) : folder_(folder) {
    const std::string path = folder + "/data.mdb";
    file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat status = {};
    if (file_ >= 0 && ::fstat(file_, &status) == 0) {
      bytes_ = static_cast<uint64_t>(status.st_size);
      const FileKind kind = kind_of_file(path);
      const std::string way_out = way_out_of(kind);
      if (bytes_ > 0 && way_out.empty()) return;
      ::close(file_);
      if (!way_out.empty())
        throw Error("LMDB '", folder_, "': data.mdb is ", describe(kind), way_out);
      throw Error("LMDB '", folder_, "': data.mdb is an empty file; copy or convert it again");
    }
    const int code = errno;
    if (file_ >= 0) ::close(file_);
    throw Error("LMDB '", folder_, "': cannot open data.mdb: ", std::strerror(code)).about(folder_);
  }
  ~Checker() { ::close(file_); }
  Checker(const Checker&) = delete;
  Checker& operator=(const Checker&) = delete;

  uint64_t bytes() const { return bytes_; }

  Table newest() const {
    char start[kHeader + 152];
    Table first = header(0, start, 0);
    const Table second = header(first.page_size, start, 1);
    return second.transaction > first.transaction ? second : first;
  }

  void check(const Table& table) {
    table_ = table;
    if (table.entries == 0 && table.root == kNoPage) return;
    if ((table.flags & ~kReverseKeys) != 0)
      throw Error("LMDB '", folder_, "' has several values a key, or other keys than text (flags ",
                  table.flags, "), and is no database of records");
    if (table.depth == 0 || table.depth > kDeepest)
      refuse(table.root, text("its tree would be ", table.depth, " pages deep"));
    // Bounded by the file, since the number of pages may be damaged.
    used_.assign(std::min(table.last_page, bytes_ / table.page_size) + 1, false);
    page_of(table.root, 1);
    if (entries_ != table.entries)
      refuse(table.root, text(entries_, " records are found instead of ", table.entries));
  }

 private:
  [[noreturn]] void refuse(uint64_t page, const std::string& why) const {
    throw Error("LMDB '", folder_, "' is damaged (page ", page, ": ", why,
                "); copy or convert it again");
  }

  /// False if the file ends before.
  bool read(uint64_t offset, char* bytes, size_t size) const {
    size_t done = 0;
    while (done < size) {
      const ssize_t got =
          ::pread(file_, bytes + done, size - done, static_cast<off_t>(offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0)
        throw Error("LMDB '", folder_, "': cannot read data.mdb: ", std::strerror(errno));
      if (got == 0) return false;
      done += static_cast<size_t>(got);
    }
    return true;
  }

  Table header(uint64_t offset, char* bytes, uint64_t page) const {
    const char* const body = bytes + kHeader;
    if (!read(offset, bytes, kHeader + 136) || number<uint32_t>(body) != kMagic ||
        number<uint16_t>(bytes + 10) != kMeta)
      throw Error("LMDB '", folder_, "': data.mdb is not an LMDB file, or damaged (page ", page,
                  " is no header); copy or convert it again");
    if (number<uint32_t>(body + 4) != kVersion)
      refuse(page, text("its version is ", number<uint32_t>(body + 4), " instead of 1"));
    const char* const main = body + 24 + 48;  // behind the table of free pages
    Table table;
    table.page_size = number<uint32_t>(body + 24);
    table.flags = number<uint16_t>(main + 4);
    table.depth = number<uint16_t>(main + 6);
    table.entries = number<uint64_t>(main + 32);
    table.root = number<uint64_t>(main + 40);
    table.last_page = number<uint64_t>(main + 48);
    table.transaction = number<uint64_t>(main + 56);
    const uint64_t size = table.page_size;
    if (size < 512 || size > 32768 || (size & (size - 1)) != 0)
      refuse(page, text("its pages would have ", size, " bytes"));
    if (table.last_page < 1 || table.last_page >= uint64_t{1} << 47)
      refuse(page, text("its last page would be ", table.last_page));
    return table;
  }

  /// Checks a page and those below it, `level` pages below the header.
  void page_of(uint64_t page, int level) {
    const uint64_t size = table_.page_size;
    if (page > table_.last_page || page < 2) refuse(page, "there is no such page");
    std::vector<char> bytes(size);
    if (!read(page * size, bytes.data(), size))
      throw Error("LMDB '", folder_, "' is truncated: data.mdb has ", bytes_,
                  " bytes and ends before page ", page, "; copy or convert it again");
    const int kind = number<uint16_t>(bytes.data() + 10) & kKinds;
    const bool leaf = level == table_.depth;
    if (number<uint64_t>(bytes.data()) != page || kind != (leaf ? kLeaf : kBranch))
      refuse(page, text("its number or its kind, ", kind, ", is wrong"));
    const size_t lower = number<uint16_t>(bytes.data() + 12), upper = number<uint16_t>(&bytes[14]);
    if (lower < kHeader || lower % 2 != 0 || lower > upper || upper > size)
      refuse(page, "its header is wrong");
    const size_t nodes = (lower - kHeader) / 2;
    if (nodes < (leaf ? 1 : 2)) refuse(page, text("it has ", nodes, " nodes"));
    take_pages(page, 1);  // cycles end here
    std::vector<Value> large;
    for (size_t i = 0; i < nodes; ++i) {
      const size_t at = number<uint16_t>(&bytes[kHeader + 2 * i]);
      if (at < upper || at + kNodeHeader > size) refuse(page, text("node ", i, " is outside"));
      const char* const node = &bytes[at];
      const size_t key = number<uint16_t>(node + 6);
      if (at + kNodeHeader + key > size) refuse(page, text("the key of node ", i, " is outside"));
      // The first key of a branch page is not used.
      if (leaf || i > 0) check_key(page, i, {node + kNodeHeader, key}, leaf);
      if (leaf) {
        check_value(page, i, node, at + kNodeHeader + key, large);
      } else {
        page_of(number<uint32_t>(node) | uint64_t{number<uint16_t>(node + 4)} << 32, level + 1);
      }
    }
    // Told of all places, the system reads several at once.
    for (const Value& value : large)
      ::posix_fadvise(file_, static_cast<off_t>(value.page * size), kHeader, POSIX_FADV_WILLNEED);
    for (const Value& value : large) check_overflow(page, value);
  }

  /// Claims pages for their one user.
  void take_pages(uint64_t first, uint64_t count) {
    for (uint64_t page = first; page < std::min(first + count, used_.size()); ++page) {
      if (used_[page]) refuse(page, "it is found twice");
      used_[page] = true;
    }
  }

  /// Keys ascend through the whole tree. That of a branch page is the least one that the page below
  /// it may have.
  void check_key(uint64_t page, size_t i, std::string_view key, bool leaf) {
    const bool from_end = (table_.flags & kReverseKeys) != 0;
    const bool ascends = leaf && last_is_bound_ ? !precedes(key, last_key_, from_end)
                                                : precedes(last_key_, key, from_end);
    if (!ascends)
      refuse(page, text("the key of node ", i, " does not come behind the one before it"));
    last_key_ = key;
    last_is_bound_ = !leaf;
  }

  /// A value with pages of its own.
  struct Value {
    uint64_t page = 0, pages = 0;  // the first one, and how many it needs
  };

  void check_overflow(uint64_t leaf, const Value& value) {
    char bytes[kHeader];
    if (!read(value.page * table_.page_size, bytes, kHeader)) refuse(value.page, "it is missing");
    const uint64_t pages = number<uint32_t>(bytes + 12);
    if (number<uint64_t>(bytes) != value.page ||
        (number<uint16_t>(bytes + 10) & kKinds) != kOverflow || pages < value.pages ||
        pages > table_.last_page + 1 - value.page)
      refuse(value.page,
             text("it has no value of ", value.pages, " pages, as page ", leaf, " says"));
    take_pages(value.page, pages);
  }

  void check_value(uint64_t page, size_t i, const char* node, size_t place,
                   std::vector<Value>& large) {
    ++entries_;
    const uint64_t value = number<uint32_t>(node);
    const auto flags = number<uint16_t>(node + 4);
    if ((flags & ~kLarge) != 0)
      refuse(page, text("node ", i, " is no record but of another kind, ", flags));
    if (number<uint16_t>(node + 6) == 0) refuse(page, text("node ", i, " has no key"));
    if (place + (flags == kLarge ? sizeof(uint64_t) : value) > table_.page_size)
      refuse(page, text("the value of node ", i, " is outside"));
    if (flags != kLarge) return;
    const auto first = number<uint64_t>(node + kNodeHeader + number<uint16_t>(node + 6));
    const uint64_t pages = (kHeader - 1 + value) / table_.page_size + 1;
    if (first < 2 || first > table_.last_page || pages > table_.last_page + 1 - first)
      refuse(page, text("the pages of node ", i, " are outside"));
    if (first * table_.page_size + kHeader + value > bytes_)
      throw Error("LMDB '", folder_, "' is truncated: data.mdb has ", bytes_,
                  " bytes and its records need ", (first + pages) * table_.page_size,
                  "; copy or convert it again");
    large.push_back({first, pages});
  }

  std::string folder_;
  int file_ = -1;
  uint64_t bytes_ = 0;
  Table table_;
  uint64_t entries_ = 0;
  std::vector<bool> used_;  // of each page: whether a part of the tree has it
  std::string last_key_;    // in the order of the tree
  bool last_is_bound_ = false;
};

}  // namespace

void check_lmdb_file(const std::string& folder, const Logger& logger) {
  constexpr int kTries = 3;
  const auto log = [&](Severity severity, const auto&... parts) {
    if (logger) logger(severity, text("LMDB '", folder, "' ", parts...));
  };
  for (int tries = 0; tries < kTries; ++tries) {
    Checker checker(folder);
    const Table table = checker.newest();
    if (tries > 0) log(Severity::info, "was written to while it was checked, and is checked again");
    if (tries == 0 && checker.bytes() > kLargeFile)
      log(Severity::info, "of ", checker.bytes() >> 20,
          " MiB is checked: the pages with its keys are read once");
    try {
      return checker.check(table);
    } catch (const Error&) {
      // Who writes meanwhile uses old pages again.
      if (checker.newest().transaction == table.transaction) throw;
    }
  }
  log(Severity::warning, "is being written to: it changed ", kTries,
      " times while it was checked, and is read without a check of its pages; end what writes to "
      "it, or read a copy");
}

}  // namespace crema
