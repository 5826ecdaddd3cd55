#include "monitor/board/board_server.hpp"

#include <httplib.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>

#include "core/parse_number.hpp"
#include "crema/error.hpp"

namespace crema {
namespace {

constexpr const char* kHost = "127.0.0.1";
/// A connection holds a thread. Who sends nothing holds one for so many seconds, and who sends a
/// body little by little.
constexpr size_t kThreads = 32;
constexpr time_t kSilence = 3;
constexpr std::chrono::seconds kLongestBody{20};

/// The header's value; "" where it is missing, or there twice.
std::string only_header(const httplib::Request& request, const char* name) {
  return request.get_header_value_count(name) == 1 ? request.get_header_value(name) : "";
}

BoardRequest request_of(const httplib::Request& request) {
  return {.method = request.method,
          .target = request.target,
          .host = only_header(request, "Host"),
          .origin = request.get_header_value("Origin"),
          .fetch_site = request.get_header_value("Sec-Fetch-Site"),
          .token = only_header(request, "X-Crema-Board"),
          .body = request.body};
}

void give(const BoardResponse& from, httplib::Response& to) {
  to.status = from.status;
  for (const auto& [name, value] : from.headers) to.set_header(name, value);
  to.set_content(from.body, from.type);
}

/// The status with which a request is refused for its body, before that is read; 0: it is not.
int refused_body(const httplib::Request& request) {
  if (request.has_header("Transfer-Encoding") || !request.has_header("Content-Length")) return 411;
  // Else a small body may become a large one.
  if (request.has_header("Content-Encoding")) return 415;
  const auto length = parse_number<uint64_t>(only_header(request, "Content-Length"));
  if (!length) return 400;
  return *length > kLargestImage ? 413 : 0;
}

}  // namespace

struct BoardServer::State {
  explicit State(Board& board_in) : board(board_in) {}

  Board& board;
  httplib::Server server;
  int port = 0;
};

BoardServer::BoardServer(Board& board, int port) : state_(std::make_unique<State>(board)) {
  httplib::Server& server = state_->server;
  // Another server of this port would get a part of the requests otherwise.
  server.set_socket_options([](int socket) {
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  server.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
  server.set_read_timeout(kSilence);
  server.set_write_timeout(kSilence);
  server.set_keep_alive_max_count(1);  // a body that nobody reads is no request
  server.set_payload_max_length(kLargestImage);
  httplib::Headers headers;
  for (const auto& [name, value] : board_headers()) headers.emplace(name, value);
  server.set_default_headers(std::move(headers));
  server.set_pre_routing_handler(
      [this](const httplib::Request& request, httplib::Response& response) {
        using Result = httplib::Server::HandlerResponse;
        if (request.method == "POST") {
          const int status = refused_body(request);
          if (status == 0) return Result::Unhandled;  // the body is read
          response.status = status;
          response.set_content(
              text("{\"error\":\"the board refuses the body of this request (", status, ")\"}"),
              "application/json");
          return Result::Handled;
        }
        give(state_->board.answer(request_of(request)), response);
        return Result::Handled;
      });
  server.Post(".*", [this](const httplib::Request& request, httplib::Response& response,
                           const httplib::ContentReader& read) {
    BoardRequest asked = request_of(request);
    const auto end = std::chrono::steady_clock::now() + kLongestBody;
    const bool is_whole = read([&](const char* bytes, size_t size) {
      asked.body.append(bytes, size);
      return std::chrono::steady_clock::now() < end;
    });
    if (!is_whole) {
      response.status = 408;
      response.set_content("{\"error\":\"the file did not arrive in time\"}", "application/json");
      return;
    }
    give(state_->board.answer(asked), response);
  });
  errno = 0;
  if (port == 0) {
    state_->port = server.bind_to_any_port(kHost);
    if (state_->port > 0) return;
  } else if (server.bind_to_port(kHost, port)) {
    state_->port = port;
    return;
  }
  const int reason = errno;
  if (reason == EADDRINUSE)
    throw Error("port ", port, " of ", kHost,
                " is in use, maybe by another board; choose another "
                "one with --port=N, or --port=0 for any that is free");
  if (reason == EACCES)
    throw Error("port ", port, " needs the rights of root; choose one from 1024 on with --port=N");
  throw Error("cannot listen at ", kHost, ", port ", port,
              reason == 0 ? "" : text(": ", std::strerror(reason)),
              "; choose another port with --port=N");
}

BoardServer::~BoardServer() = default;

int BoardServer::port() const { return state_->port; }

void BoardServer::run() { state_->server.listen_after_bind(); }

void BoardServer::stop() { state_->server.stop(); }

}  // namespace crema
