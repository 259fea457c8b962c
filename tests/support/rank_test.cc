#include "support/rank_test.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "support/rank_parent.h"

namespace ronde::test {

namespace {

int number_in(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? -1 : std::atoi(text);
}

/// What CTest takes for "skipped" (cmake/rank_test.cmake).
constexpr int kSkipped = 77;

/// The tests are to run over libfabric, and there is none.
bool lacks_libfabric() {
  const char* const transport = std::getenv("RONDE_TRANSPORT");
  const char* const file = std::getenv("RONDE_OFI_LIBRARY");
  return transport != nullptr && std::string_view(transport) == "ofi" &&
         ::dlopen(file != nullptr ? file : "libfabric.so.1", RTLD_LAZY | RTLD_LOCAL) == nullptr;
}

int parent_socket() {
  static const int socket = number_in(kSocketVariable);
  return socket;
}

/// Ranks begin and end each test together, so that the failure of one is seen in the test where it happened.
class Meetings : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo&) override { meet(); }
  void OnTestEnd(const testing::TestInfo&) override { meet(); }
};

}  // namespace

int rank() { return number_in("RONDE_RANK"); }

int size() { return number_in("RONDE_SIZE"); }
bool shares_memory() {
  const char* const transport = std::getenv("RONDE_TRANSPORT");
  return transport == nullptr || std::string_view(transport) == "shm";
}

void meet() {
  char answer = 0;
  if (::send(parent_socket(), &kMeet, 1, MSG_NOSIGNAL) != 1 || ::recv(parent_socket(), &answer, 1, 0) != 1) {
    std::fprintf(stderr, "the test's parent has gone\n");
    std::_Exit(1);
  }
}

void expect_exit(int code) {
  const char message[2] = {kExpectExit, static_cast<char>(code)};
  if (::send(parent_socket(), message, sizeof message, MSG_NOSIGNAL) != sizeof message) {
    std::_Exit(1);
  }
}

std::string folder() { return std::getenv(kFolderVariable); }

void pause_between_looks() { std::this_thread::yield(); }

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace ronde::test

int main(int argc, char** argv) {
  using namespace ronde::test;
  if (parent_socket() >= 0) {
    testing::InitGoogleTest(&argc, argv);
    testing::UnitTest::GetInstance()->listeners().Append(new Meetings);
    return RUN_ALL_TESTS();
  }
  ParentOptions options;
  for (int i = 0; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.substr(0, 8) == "--ranks=") {
      options.ranks = std::atoi(argv[i] + 8);
    } else if (argument.substr(0, 8) == "--limit=") {
      options.limit_s = std::atof(argv[i] + 8);
    } else {
      options.arguments.emplace_back(argument);
    }
  }
  if (lacks_libfabric()) {
    std::fprintf(stderr, "skipped: there is no libfabric here (%s)\n", ::dlerror());
    return kSkipped;
  }
  return run_ranks(options);
}
