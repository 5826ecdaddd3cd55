#include "model/checksum.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "crema/error.hpp"

namespace crema {

struct Checksum::State {
  XXH3_state_t hash;
};

Checksum::Checksum() : state_(std::make_unique<State>()) { XXH3_64bits_reset(&state_->hash); }

Checksum::~Checksum() = default;

void Checksum::add(const void* bytes, size_t count) {
  XXH3_64bits_update(&state_->hash, bytes, count);
}

uint64_t Checksum::value() const { return XXH3_64bits_digest(&state_->hash); }

void throw_changed(const std::string& path, const std::string& how) {
  throw Error("cannot read '", path, "': its contents changed after it was written: ", how,
              "; copy or download it again, or take an earlier one; if a program changed it on "
              "purpose, accept it with `crema checksum --accept ",
              path, "`");
}

}  // namespace crema
