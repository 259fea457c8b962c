// munge (https://github.com/dun/munge) by its library, opened at run time: a cluster that has it has the daemon. Its
// interface has been the same since version 0.5.
#include <dlfcn.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "base/found_functions.h"
#include "base/job_key.h"
#include "site/seal.h"

namespace ronde::site {

namespace {

constexpr int kUidRestriction = 9;
constexpr int kSuccess = 0;

struct Munge {
  void* (*create)();
  void (*destroy)(void*);
  int (*set)(void*, int option, ...);
  int (*encode)(char** credential, void* context, const void* payload, int bytes);
  int (*decode)(const char* credential, void* context, void** payload, int* bytes, uid_t*, gid_t*);
  const char* (*error)(int);
  const char* (*context_error)(void*);
};

class MungeSeal final : public Seal {
 public:
  MungeSeal(const Munge& munge, std::string job) : munge_(munge), job_(std::move(job)) {}

  Result<Bytes> ask() override {
    RONDE_ASSIGN_OR_RETURN(const JobKey random, make_job_key());
    nonce_ = to_hex(random);
    return encode(head("ask", nonce_));
  }

  Result<Bytes> answer(std::span<const std::byte> asked, const std::string& text) override {
    RONDE_ASSIGN_OR_RETURN(const std::string question, decode(asked));
    const std::string before = head("ask", "");
    if (!question.starts_with(before) || question.size() != before.size() + 2 * kJobKeyBytes) {
      return Status::error(Code::auth_failed, "who asks is of another job");
    }
    return encode(head("tell", question.substr(before.size())) + "\n" + text);
  }

  Result<std::string> open(std::span<const std::byte> answered) override {
    RONDE_ASSIGN_OR_RETURN(const std::string answer, decode(answered));
    const std::string before = head("tell", nonce_) + "\n";
    if (!answer.starts_with(before)) {
      return Status::error(Code::auth_failed, "who answers is of another job");
    }
    return answer.substr(before.size());
  }

  Result<Bytes> encode(const std::string& payload) const {
    void* const context = munge_.create();
    if (context == nullptr) {
      return Status::error(Code::out_of_memory, "munge_ctx_create() fails");
    }
    char* credential = nullptr;
    int how = munge_.set(context, kUidRestriction, ::geteuid());
    if (how == kSuccess) {
      how = munge_.encode(&credential, context, payload.data(), static_cast<int>(payload.size()));
    }
    Result<Bytes> bytes = Status::error(Code::system_error, "munge cannot make a credential: " + why(how, context));
    if (how == kSuccess && credential != nullptr) {
      const auto* begin = reinterpret_cast<const std::byte*>(credential);
      bytes = Bytes(begin, begin + std::strlen(credential));
    }
    std::free(credential);
    munge_.destroy(context);
    return bytes;
  }

 private:
  std::string head(const std::string& word, const std::string& nonce) const {
    return "ronde 1\n" + word + "\n" + job_ + "\n" + nonce;
  }

  std::string why(int how, void* context) const {
    const char* const more = munge_.context_error(context);
    return more != nullptr ? more : munge_.error(how);
  }

  /// The payload, if this user has made the credential.
  Result<std::string> decode(std::span<const std::byte> bytes) const {
    const std::string credential(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    void* const context = munge_.create();
    if (context == nullptr) {
      return Status::error(Code::out_of_memory, "munge_ctx_create() fails");
    }
    void* payload = nullptr;
    int length = 0;
    uid_t user = static_cast<uid_t>(-1);
    gid_t group = static_cast<gid_t>(-1);
    const int how = munge_.decode(credential.c_str(), context, &payload, &length, &user, &group);
    Result<std::string> text =
        Status::error(Code::auth_failed, "munge does not accept a credential: " + why(how, context));
    if (how == kSuccess && user != ::geteuid()) {
      text = Status::error(Code::auth_failed, "a munge credential is another user's");
    } else if (how == kSuccess) {
      text = std::string(static_cast<const char*>(payload), static_cast<std::size_t>(length));
    }
    std::free(payload);
    munge_.destroy(context);
    return text;
  }

  const Munge munge_;
  const std::string job_;
  std::string nonce_;
};

}  // namespace

Result<std::unique_ptr<Seal>> munge_seal(const std::string& job) {
  void* const library = ::dlopen("libmunge.so.2", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return Status::error(Code::system_error, "libmunge cannot be opened: " + std::string(::dlerror()));
  }
  Munge munge{};
  FoundFunctions found(library);
  found.find(munge.create, "munge_ctx_create");
  found.find(munge.destroy, "munge_ctx_destroy");
  found.find(munge.set, "munge_ctx_set");
  found.find(munge.encode, "munge_encode");
  found.find(munge.decode, "munge_decode");
  found.find(munge.error, "munge_strerror");
  found.find(munge.context_error, "munge_ctx_strerror");
  if (!found.has_all()) {
    return Status::error(Code::system_error, "libmunge lacks functions of munge 0.5");
  }
  auto seal = std::make_unique<MungeSeal>(munge, job);
  RONDE_RETURN_IF_ERROR(seal->encode("").status());  // whether the daemon is there
  return std::unique_ptr<Seal>(std::move(seal));
}

}  // namespace ronde::site
