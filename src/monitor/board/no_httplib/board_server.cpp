// For builds without cpp-httplib.
#include "monitor/board/board_server.hpp"

#include "crema/error.hpp"

namespace crema {

struct BoardServer::State {};

BoardServer::BoardServer(Board&, int) {
  throw Error(
      "cannot serve pages: this build of Crema has no cpp-httplib; build with CREMA_HTTPLIB=ON "
      "(package libcpp-httplib-dev), or use `crema report`, whose pages need no server");
}

BoardServer::~BoardServer() = default;

int BoardServer::port() const { return 0; }

void BoardServer::run() {}

void BoardServer::stop() {}

}  // namespace crema
