#include "model/origin.hpp"

namespace crema {

std::string program_version() { return "crema " CREMA_VERSION; }

}  // namespace crema
