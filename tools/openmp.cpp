// The program's own teams in place of libgomp's, for the regions of Crema, oneDNN and OpenBLAS.
// Part of the program `crema` alone: a program that embeds the library, and Python, have their own
// ideas of threads.
//
// A region of OpenMP is a call of GOMP_parallel(). Code that GCC compiles asks it for threads, and
// omp_get_thread_num() and its like for its share. The functions here stand before libgomp's, which
// the linker finds later, and give to libgomp what they do not know: regions of other libraries,
// such as plug-ins, which may use more of libgomp than these functions.
#if defined(__GNUC__) && !defined(__clang__)

#include <dlfcn.h>
#include <link.h>
#include <omp.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/team.hpp"

namespace {

using crema::tools::ThreadTeam;
using Body = ThreadTeam::Body;

template <class Function>
Function* of_libgomp(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

/// Code whose regions may have these teams.
class KnownCode {
 public:
  KnownCode() {
    // Who sets libgomp's limit wants libgomp's threads.
    const char* const policy = std::getenv("OMP_WAIT_POLICY");
    const std::string_view word = policy != nullptr ? policy : "";
    passive_ = word == "passive" || word == "PASSIVE";
    if (policy != nullptr && !passive_) return;
    // So does who binds threads to processors: threads that are made here would all have the first
    // one's.
    for (const char* const name :
         {"GOMP_SPINCOUNT", "GOMP_CPU_AFFINITY", "OMP_PLACES", "OMP_THREAD_LIMIT"})
      if (std::getenv(name) != nullptr) return;
    const char* const bind = std::getenv("OMP_PROC_BIND");
    if (bind != nullptr && std::string_view(bind) != "false" && std::string_view(bind) != "FALSE")
      return;
    ::dl_iterate_phdr(
        [](dl_phdr_info* info, size_t, void* self) {
          static_cast<KnownCode*>(self)->add(*info);
          return 0;
        },
        this);
  }

  bool has(Body body) const {
    const auto at = reinterpret_cast<uintptr_t>(body);
    for (const auto& [begin, end] : ranges_) {
      if (at >= begin && at < end) return true;
    }
    return false;
  }
  bool spins() const { return !passive_; }

 private:
  void add(const dl_phdr_info& info) {
    const std::string_view name = info.dlpi_name != nullptr ? info.dlpi_name : "";
    const auto is = [&](std::string_view library) { return name.find(library) != name.npos; };
    // The program itself has no name.
    if (!name.empty() && !is("/libcrema.") && !is("/libdnnl.") && !is("/libopenblas")) return;
    for (int i = 0; i < info.dlpi_phnum; ++i) {
      const auto& part = info.dlpi_phdr[i];
      if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
      const uintptr_t begin = info.dlpi_addr + part.p_vaddr;
      ranges_.emplace_back(begin, begin + part.p_memsz);
    }
  }

  std::vector<std::pair<uintptr_t, uintptr_t>> ranges_;
  bool passive_ = false;
};

const KnownCode& known_code() {
  static const auto* const known = new KnownCode;
  return *known;
}

/// The team of a thread, which ends with it.
struct OwnTeam {
  std::unique_ptr<ThreadTeam> team;
  bool ended = false;
  ~OwnTeam() {
    team.reset();
    ended = true;
  }
};
thread_local OwnTeam own;

}  // namespace

extern "C" {

void GOMP_parallel(Body body, void* data, unsigned threads, unsigned flags) {
  static auto* const libgomp = of_libgomp<void(Body, void*, unsigned, unsigned)>("GOMP_parallel");
  const bool in_region = ThreadTeam::here().team != nullptr;
  if (!in_region && (own.ended || !known_code().has(body)))
    return libgomp(body, data, threads, flags);
  const int shares = threads > 0 ? static_cast<int>(threads) : omp_get_max_threads();
  if (in_region || shares <= 1) return ThreadTeam::run_inside(body, data);
  if (own.team == nullptr) own.team = std::make_unique<ThreadTeam>(known_code().spins());
  own.team->run(body, data, shares);
}

void GOMP_barrier() {
  static auto* const libgomp = of_libgomp<void()>("GOMP_barrier");
  const ThreadTeam::Here& here = ThreadTeam::here();
  if (here.team == nullptr) return libgomp();
  if (here.shares > 1) here.team->barrier();
}

int omp_get_thread_num() noexcept {
  static auto* const libgomp = of_libgomp<int()>("omp_get_thread_num");
  const ThreadTeam::Here& here = ThreadTeam::here();
  return here.team != nullptr ? here.share : libgomp();
}

int omp_get_num_threads() noexcept {
  static auto* const libgomp = of_libgomp<int()>("omp_get_num_threads");
  const ThreadTeam::Here& here = ThreadTeam::here();
  return here.team != nullptr ? here.shares : libgomp();
}

int omp_in_parallel() noexcept {
  static auto* const libgomp = of_libgomp<int()>("omp_in_parallel");
  return ThreadTeam::here().team != nullptr ? 1 : libgomp();
}

}  // extern "C"

#endif
