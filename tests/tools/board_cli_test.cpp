// crema board, as browsers and curl reach it: through a socket.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "support/needs.hpp"
#include "tools/cli.hpp"

namespace crema::test {
namespace {

namespace fs = std::filesystem;

/// A board that runs until its end.
class RunningBoard {
 public:
  explicit RunningBoard(const std::string& folder) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe(ends.data()), 0);
    process_ = ::fork();
    if (process_ == 0) {
      ::dup2(ends[1], 1);
      ::close(ends[0]);
      ::close(ends[1]);
      ::execl(CREMA_TOOL, CREMA_TOOL, "board", folder.c_str(), "--port=0", nullptr);
      ::_exit(127);
    }
    ::close(ends[1]);
    char byte = 0;
    while (::read(ends[0], &byte, 1) == 1 && byte != '\n') said_ += byte;
    ::close(ends[0]);
    const std::string before = "http://127.0.0.1:";
    const size_t at = said_.find(before);
    if (at != std::string::npos)
      std::from_chars(said_.data() + at + before.size(), said_.data() + said_.size(), port_);
  }
  ~RunningBoard() { end(SIGKILL); }

  /// Its exit status, or 128 and the signal.
  int end(int signal) {
    if (process_ <= 0) return -1;
    ::kill(process_, signal);
    int status = 0;
    ::waitpid(process_, &status, 0);
    process_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  const std::string& said() const { return said_; }
  int port() const { return port_; }

  /// A connection to the board; -1 without one.
  int connected() const {
    const int connection = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port_));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(connection, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0)
      return connection;
    ::close(connection);
    return -1;
  }
  /// All that the board answers to these bytes.
  std::string ask(const std::string& request) const {
    const int connection = connected();
    std::string answer;
    if (connection >= 0) {
      for (size_t sent = 0; sent < request.size();) {
        const ssize_t n =
            ::send(connection, request.data() + sent, request.size() - sent, MSG_NOSIGNAL);
        if (n <= 0) break;
        sent += static_cast<size_t>(n);
      }
      std::array<char, 4096> buffer{};
      for (ssize_t n; (n = ::recv(connection, buffer.data(), buffer.size(), 0)) > 0;)
        answer.append(buffer.data(), static_cast<size_t>(n));
    }
    ::close(connection);
    return answer;
  }
  std::string get(const std::string& target, const std::string& more = "") const {
    return ask("GET " + target + " HTTP/1.1\r\nHost: localhost\r\n" + more + "\r\n");
  }
  std::string post(const std::string& target, const std::string& headers,
                   const std::string& body) const {
    return ask("POST " + target + " HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n" + body);
  }

 private:
  pid_t process_ = 0;
  std::string said_;
  int port_ = 0;
};

class BoardCliTest : public CliTest {
 protected:
  void SetUp() override {
    if (!kBuiltWithHttplib) GTEST_SKIP() << "needs cpp-httplib: configure with CREMA_HTTPLIB=ON";
    fs::create_directories(path("runs/a-1"));
    write("runs/a-1/run.json", R"({"name": "a-1", "net": "tiny"})");
    write("runs/a-1/metrics.jsonl", "{\"kind\": \"TRAIN\", \"iteration\": 1, \"loss\": 0.5}\n");
    write("secret.txt", "the secret");
  }
};

bool begins(const std::string& answer, int status) {
  return answer.starts_with("HTTP/1.1 " + std::to_string(status) + " ");
}
bool has(const std::string& answer, const std::string& part) {
  return answer.find(part) != std::string::npos;
}

TEST_F(BoardCliTest, ServesPagesWithTheirHeaders) {
  const RunningBoard board(path("runs"));
  ASSERT_GT(board.port(), 0) << board.said();
  const std::string list = board.get("/");
  EXPECT_TRUE(begins(list, 200)) << list;
  for (const char* part :
       {"Content-Security-Policy: default-src 'none'", "X-Content-Type-Options: nosniff",
        "Cache-Control: no-store", "Connection: close", "href=\"/run/a-1\""})
    EXPECT_TRUE(has(list, part)) << part << " is not in: " << list;
  EXPECT_FALSE(has(list, "Access-Control")) << list;
  EXPECT_TRUE(has(board.get("/run/a-1"), "chart-loss"));
  EXPECT_TRUE(has(board.get("/parts/run/a-1"), "Content-Type: application/json"));
  EXPECT_TRUE(has(board.get("/file/run.json/a-1"), "Content-Disposition: attachment"));
  const std::string head = board.ask("HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_TRUE(begins(head, 200)) << head;
  EXPECT_FALSE(has(head, "<html")) << head;
}

TEST_F(BoardCliTest, RefusesWhatItIsNotFor) {
  const RunningBoard board(path("runs"));
  ASSERT_GT(board.port(), 0) << board.said();
  EXPECT_TRUE(begins(board.ask("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"), 403));
  EXPECT_TRUE(begins(board.ask("GET / HTTP/1.1\r\n\r\n"), 403));
  EXPECT_TRUE(
      begins(board.ask("GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n"), 403));
  for (const char* target : {"/../secret.txt", "/file/../../secret.txt",
                             "/run/..%2f..%2fsecret.txt", "/file/run.json/%2e%2e", "/run/a-1%00"})
    EXPECT_TRUE(begins(board.get(target), 400)) << board.get(target);
  EXPECT_TRUE(begins(board.get("/file/secret.txt/a-1"), 404));
  EXPECT_TRUE(
      begins(board.ask("PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx"), 405));
  const std::string good = "X-Crema-Board: 1\r\nContent-Length: 3\r\n";
  // There are no weights.
  EXPECT_TRUE(begins(board.post("/see/a-1?weights=x", good, "abc"), 404));
  EXPECT_TRUE(begins(board.post("/see/a-1?weights=x", "Content-Length: 3\r\n", "abc"), 403));
  EXPECT_TRUE(begins(board.post("/see/a-1", good + "Origin: http://evil.example\r\n", "abc"), 403));
  EXPECT_TRUE(begins(board.post("/see/a-1", "X-Crema-Board: 1\r\n", ""), 411));
  EXPECT_TRUE(begins(
      board.post("/see/a-1", "X-Crema-Board: 1\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
      411));
  EXPECT_TRUE(
      begins(board.post("/see/a-1", "X-Crema-Board: 1\r\nContent-Length: 30000000\r\n", ""), 413));
  EXPECT_TRUE(begins(board.post("/see/a-1", good + "Content-Encoding: gzip\r\n", "abc"), 415));
  // Half a request and none keep nobody else waiting.
  EXPECT_TRUE(begins(board.get("/"), 200));
}

TEST_F(BoardCliTest, ClientsThatSendNothingKeepNobodyWaiting) {
  const RunningBoard board(path("runs"));
  ASSERT_GT(board.port(), 0) << board.said();
  using Clock = std::chrono::steady_clock;
  std::vector<int> silent;
  for (int i = 0; i < 16; ++i) silent.push_back(board.connected());
  const std::string half = "GET / HTTP/1.1\r\nHost: loc";
  for (const int one : silent) ::send(one, half.data(), half.size(), MSG_NOSIGNAL);
  const auto begin = Clock::now();
  EXPECT_TRUE(begins(board.get("/"), 200));
  EXPECT_LT(Clock::now() - begin, std::chrono::milliseconds(2500));
  // They are not waited for without end.
  for (const int one : silent) {
    char byte = 0;
    while (::recv(one, &byte, 1, 0) > 0) {
    }
    ::close(one);
  }
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(30));
}

TEST_F(BoardCliTest, EndsAtCtrlC) {
  RunningBoard board(path("runs"));
  ASSERT_GT(board.port(), 0) << board.said();
  EXPECT_TRUE(begins(board.get("/"), 200));
  EXPECT_EQ(board.end(SIGINT), 0);
}

TEST_F(BoardCliTest, APortInUseIsSaidWithTheWayOut) {
  const RunningBoard board(path("runs"));
  ASSERT_GT(board.port(), 0) << board.said();
  expect_refusal("board " + path("runs") + " --port " + std::to_string(board.port()),
                 {"port " + std::to_string(board.port()), "is in use", "--port=0"});
}

TEST_F(BoardCliTest, WrongArgumentsAreErrors) {
  expect_refusal("board " + path("nothing"), {"there is no folder", "nothing"});
  expect_refusal("board " + path("runs") + " --port 70000", {"--port=70000", "65535"});
  expect_refusal("board " + path("runs") + " more", {"one folder"});
}

TEST_F(BoardCliTest, ShowsAnImageToTheWeightsOfARun) {
  if (!kBuiltWithOpenCv) GTEST_SKIP() << "needs OpenCV: configure with CREMA_OPENCV=ON";
  fs::create_directories(path("runs/a-1/snapshots"));
  write("runs/a-1/net.prototxt", R"(name: "means"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 2 dim: 2 } } }
layer { name: "mean" type: "Pooling" bottom: "data" top: "mean" pooling_param { pool: AVE global_pooling: true } })");
  // A net without layers, as weights: its name.
  write("last.caffemodel", std::string("\x0a\x05means", 7));
  fs::create_symlink(path("last.caffemodel"), path("runs/a-1/snapshots/last.caffemodel"));
  // Of 1 x 1 pixel: blue 10, green 20, red 30.
  std::string bitmap("BM\x3a\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\x18\0",
                     30);
  bitmap += std::string(24, '\0') + std::string("\x0a\x14\x1e\0", 4);
  const RunningBoard board(path("runs"));
  ASSERT_GT(board.port(), 0) << board.said();
  const std::string answer = board.post(
      "/see/a-1?weights=last.caffemodel",
      "X-Crema-Board: 1\r\nContent-Length: " + std::to_string(bitmap.size()) + "\r\n", bitmap);
  EXPECT_TRUE(begins(answer, 200)) << answer;
  EXPECT_TRUE(has(answer, R"("found":[{"label":2,"name":"2","score":30,)")) << answer;
  // Nothing of it is stored.
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(path("runs"))) {
    if (!entry.is_directory()) ++files;
  }
  EXPECT_EQ(files, 4);
}

}  // namespace
}  // namespace crema::test
