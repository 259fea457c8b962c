#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <fstream>
#include <utility>

#include "stopped.h"
#include "support/rank_test.h"

/// The engine's thread blocks every signal, and a fault in a thread that blocks it is the process's end. Here it shall
/// come to the handler on that thread too.
extern "C" int pthread_sigmask(int how, const sigset_t* set, sigset_t* before) noexcept {
  sigset_t without{};
  if (set != nullptr) {
    without = *set;
    sigdelset(&without, SIGSEGV);
  }
  constexpr std::size_t kKernelBytes = 8;
  const long result = ::syscall(SYS_rt_sigprocmask, how, set == nullptr ? nullptr : &without, before, kKernelBytes);
  return result == 0 ? 0 : errno;
}

namespace ronde::test {
namespace {

constexpr std::size_t kPage = 4096;
constexpr double kPatience = 60;

std::atomic<std::uintptr_t> trap{0};
std::atomic<bool> was_stopped{false};

void on_fault(int, siginfo_t* info, void*) {
  const auto at = reinterpret_cast<std::uintptr_t>(info->si_addr);
  const std::uintptr_t page = trap.load();
  if (page == 0 || at < page || at >= page + kPage) {
    ::signal(SIGSEGV, SIG_DFL);
    return;
  }
  was_stopped.store(true);
  // To this thread: it takes it before it returns, and takes the others along.
  ::syscall(SYS_tgkill, ::getpid(), ::syscall(SYS_gettid), SIGSTOP);
  ::mprotect(reinterpret_cast<void*>(page), kPage, PROT_READ | PROT_WRITE);
}

}  // namespace

StopsAt::StopsAt(const void* address) {
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  ::sigaction(SIGSEGV, &action, nullptr);
  was_stopped.store(false);
  trap.store(reinterpret_cast<std::uintptr_t>(address) / kPage * kPage);
  if (::mprotect(reinterpret_cast<void*>(trap.load()), kPage, PROT_NONE) != 0) {
    ADD_FAILURE() << "mprotect: " << errno;
  }
}

StopsAt::~StopsAt() {
  ::mprotect(reinterpret_cast<void*>(trap.load()), kPage, PROT_READ | PROT_WRITE);
  trap.store(0);
}

bool StopsAt::has_stopped() { return was_stopped.load(); }

std::vector<int> all_processes() {
  const std::string file = folder() + "/process.";
  std::ofstream(file + std::to_string(rank())) << ::getpid();
  meet();
  std::vector<int> processes(static_cast<std::size_t>(size()));
  for (int r = 0; r < size(); ++r) {
    std::ifstream(file + std::to_string(r)) >> processes[static_cast<std::size_t>(r)];
  }
  meet();
  return processes;
}

char state_of(int process) {
  std::string stat;
  std::getline(std::ifstream("/proc/" + std::to_string(process) + "/stat"), stat);
  const std::size_t name_ends = stat.rfind(')');
  return name_ends == std::string::npos || name_ends + 2 >= stat.size() ? '?' : stat[name_ends + 2];
}

void wait_for_state(int process, char state) {
  ASSERT_TRUE(eventually([&] { return state_of(process) == state; }, kPatience))
      << "process " << process << " is not '" << state << "' but '" << state_of(process) << "'";
}

Guarded::Guarded(const std::string& name, std::size_t elements, bool shared) : name_(name), elements_(elements) {
  if (shared) {
    buffer_ = SharedBuffer(name, (elements + 2 * kMargin) * sizeof(float));
  } else {
    own_.resize(elements + 2 * kMargin);
  }
}

std::span<float> Guarded::all() {
  const std::span<float> whole = own_.empty() ? buffer_.as<float>() : std::span<float>(own_);
  return whole.subspan(0, elements_ + 2 * kMargin);
}

void Guarded::fill(float value) {
  std::fill(all().begin(), all().end(), static_cast<float>(rank()));
  std::fill(values().begin(), values().end(), value);
}

void Guarded::expect(float value, const std::string& what) {
  const std::span<float> tensor = values();
  const auto others =
      static_cast<std::size_t>(std::count_if(tensor.begin(), tensor.end(), [&](float each) { return each != value; }));
  EXPECT_EQ(others, 0u) << what << ": of " << tensor.size() << " elements of '" << name_ << "' on rank " << rank()
                        << " so many are not " << value << " any more";
  expect_margins(what);
}

void Guarded::expect_margins(const std::string& what) {
  for (const std::span<float> margin : {all().first(kMargin), all().last(kMargin)}) {
    EXPECT_EQ(std::count(margin.begin(), margin.end(), static_cast<float>(rank())),
              static_cast<std::ptrdiff_t>(kMargin))
        << what << ": something beside '" << name_ << "' has changed on rank " << rank();
  }
}

void Guarded::renew() {
  if (own_.empty()) {
    const std::size_t bytes = buffer_.size_bytes();
    buffer_ = SharedBuffer();
    buffer_ = SharedBuffer(name_, bytes);
  } else {
    std::vector<float>(own_.size()).swap(own_);
  }
}

}  // namespace ronde::test
