// Serves a Board on this machine: 127.0.0.1 alone.
#pragma once

#include <memory>

#include "monitor/board/board.hpp"

namespace crema {

class BoardServer {
 public:
  /// Takes the port; 0: any free one. Error, with the way out, if it is in use or may not be taken,
  /// and in a build without cpp-httplib. The board outlives this object.
  BoardServer(Board& board, int port);
  ~BoardServer();
  BoardServer(const BoardServer&) = delete;
  BoardServer& operator=(const BoardServer&) = delete;

  int port() const;
  /// Answers requests until stop() is called in another thread. Once.
  void run();
  /// Connections that are open are answered, and closed.
  void stop();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace crema
