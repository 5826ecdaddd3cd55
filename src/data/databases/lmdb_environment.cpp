#include "data/databases/lmdb_environment.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "crema/error.hpp"

namespace crema {
namespace {

constexpr unsigned kMaxReaders = 1024;

OpenOnce<LmdbEnvironment>& open_environments() {
  static auto* const environments = new OpenOnce<LmdbEnvironment>;
  return *environments;
}

}  // namespace

// LMDB's internal assertions, which a damaged file can reach, end the process by default. What is
// thrown instead passes through LMDB's own frames: this relies on unwind tables in liblmdb, which
// compilers write by default for the processors that we know; a test with a damaged file sees it.
void LmdbEnvironment::on_assertion(MDB_env* env, const char* text) {
  auto* const self = static_cast<LmdbEnvironment*>(mdb_env_get_userctx(env));
  self->broken_ = true;
  throw Error("LMDB '", self->folder_, "' is damaged (", text, "); copy or convert it again");
}

void LmdbEnvironment::check_whole() const {
  if (broken_)
    throw Error("LMDB '", folder_, "' is damaged, as was found before; copy or convert it again");
}

void LmdbEnvironment::check(int code, const char* action) const {
  if (code == MDB_SUCCESS) return;
  const char* hint = "";
  switch (code) {
    case MDB_INVALID:
    case MDB_CORRUPTED:
    case MDB_PAGE_NOTFOUND:
    case MDB_VERSION_MISMATCH:
    case MDB_PANIC:
    case MDB_BAD_TXN:
      hint = "; the database is damaged or not an LMDB file: copy or convert it again";
      break;
    case MDB_READERS_FULL:
      hint = "; too many processes read it: use lock: NONE while nothing writes to it";
      break;
    case ENOMEM:
      hint = "; the address space is exhausted: raise the limit (ulimit -v)";
      break;
    case EACCES:
    case EPERM:
      hint = "; check who may read data.mdb";
      break;
    default:
      break;
  }
  throw Error("LMDB '", folder_, "': ", action, ": ", mdb_strerror(code), hint);
}

std::shared_ptr<LmdbEnvironment> LmdbEnvironment::open(const std::string& folder, LockMode lock,
                                                       const Logger& logger,
                                                       const std::function<void()>& before) {
  const std::string file = folder + "/data.mdb";
  struct stat status;
  if (::stat(file.c_str(), &status) != 0) {
    throw Error("LMDB '", folder, "': cannot open data.mdb: ", mdb_strerror(errno)).about(folder);
  }
  auto environment = open_environments().get({status.st_dev, status.st_ino}, [&] {
    if (before) before();
    return std::unique_ptr<LmdbEnvironment>(new LmdbEnvironment(folder, lock, logger));
  });
  environment->check_whole();
  return environment;
}

LmdbEnvironment::LmdbEnvironment(std::string folder, LockMode lock, const Logger& logger)
    : folder_(std::move(folder)), locked_(lock == LockMode::automatic) {
  try {
    int code = try_open(locked_);
    if (locked_ && code > 0 && code != ENOMEM) {
      // Positive codes are the system's. The lock file may be the one that it refused.
      const int refused = code;
      locked_ = false;
      code = try_open(false);
      if (code == MDB_SUCCESS && logger) {
        logger(Severity::info,
               text("LMDB '", folder_, "' is read without a lock (", mdb_strerror(refused),
                    "); nothing may write to it meanwhile. lock: NONE says so"));
      }
    }
    check(code, "cannot open it");
    read_header();
  } catch (...) {
    if (env_) mdb_env_close(env_);
    throw;
  }
}

LmdbEnvironment::~LmdbEnvironment() { mdb_env_close(env_); }

int LmdbEnvironment::try_open(bool locked) {
  if (env_) mdb_env_close(std::exchange(env_, nullptr));
  int code = mdb_env_create(&env_);
  if (code != MDB_SUCCESS) return code;
  mdb_env_set_userctx(env_, this);
  mdb_env_set_assert(env_, on_assertion);
  mdb_env_set_maxreaders(env_, kMaxReaders);
  // NOTLS: a transaction belongs to its reader, and not to a thread.
  const unsigned flags = MDB_RDONLY | MDB_NOTLS | (locked ? 0u : MDB_NOLOCK);
  return mdb_env_open(env_, folder_.c_str(), flags, 0664);
}

void LmdbEnvironment::read_header() {
  MDB_stat pages;
  check(mdb_env_stat(env_, &pages), "cannot read its header");
  mdb_filehandle_t file;
  check(mdb_env_get_fd(env_, &file), "cannot read its header");
  struct stat status;
  if (::fstat(file, &status) != 0) check(errno, "cannot read its size");
  // Reading mapped memory behind the end of a file kills the process. Pages in use: those of the
  // tree and two headers; free ones at the end may rightly be missing.
  const auto needed = static_cast<uint64_t>(pages.ms_psize) *
                      (pages.ms_branch_pages + pages.ms_leaf_pages + pages.ms_overflow_pages + 2);
  const auto size = static_cast<uint64_t>(status.st_size);
  if (size < needed)
    throw Error("LMDB '", folder_, "' is truncated: data.mdb has ", size,
                " bytes and its records need ", needed, "; copy or convert it again");
  if (pages.ms_entries == 0)
    throw Error("LMDB '", folder_, "' is empty: it holds no record; convert the data again");
  count_ = static_cast<int64_t>(pages.ms_entries);

  MDB_txn* transaction = nullptr;
  check(mdb_txn_begin(env_, nullptr, MDB_RDONLY, &transaction), "cannot begin to read");
  const int code = mdb_dbi_open(transaction, nullptr, 0, &table_);
  // Committed, and not aborted, so that the handle stays valid.
  check(mdb_txn_commit(transaction), "cannot begin to read");
  check(code, "cannot open its table");
}

const KeyIndex& LmdbEnvironment::index() {
  std::call_once(index_made_, [this] {
    // Borrows this: a cursor that shared ownership would keep the environment open for ever.
    LmdbCursor cursor(std::shared_ptr<LmdbEnvironment>(std::shared_ptr<void>(), this));
    index_ = count_keys(cursor).index;
  });
  return index_;
}

LmdbCursor::LmdbCursor(std::shared_ptr<LmdbEnvironment> environment)
    : environment_(std::move(environment)) {
  environment_->check_whole();
  environment_->check(mdb_txn_begin(environment_->get(), nullptr, MDB_RDONLY, &transaction_),
                      "cannot begin to read");
  const int code = mdb_cursor_open(transaction_, environment_->table(), &cursor_);
  if (code != MDB_SUCCESS) mdb_txn_abort(transaction_);
  environment_->check(code, "cannot begin to read");
}

LmdbCursor::~LmdbCursor() {
  mdb_cursor_close(cursor_);
  mdb_txn_abort(transaction_);
}

bool LmdbCursor::find(std::string_view key, Record& record) {
  record.key = key;
  return move(MDB_SET_KEY, record);
}

bool LmdbCursor::move(MDB_cursor_op operation, Record& record) {
  MDB_val key{record.key.size(), const_cast<char*>(record.key.data())};
  MDB_val value{0, nullptr};
  const int code = mdb_cursor_get(cursor_, &key, &value, operation);
  if (code == MDB_NOTFOUND) return false;
  environment_->check(code, "cannot read the next record");
  record.key = {static_cast<const char*>(key.mv_data), key.mv_size};
  record.value = {static_cast<const char*>(value.mv_data), value.mv_size};
  return true;
}

}  // namespace crema
