#include "site/seal.h"

#include <sodium/crypto_generichash.h>
#include <sodium/crypto_scalarmult.h>
#include <sodium/crypto_secretbox.h>
#include <sodium/crypto_verify_32.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "base/random.h"
#include "site/private_file.h"
#include "store/handshake.h"

namespace ronde::site {

namespace {

using Nonce = std::array<std::byte, 32>;

unsigned char* raw(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }
const unsigned char* raw(const std::byte* bytes) { return reinterpret_cast<const unsigned char*>(bytes); }

Bytes bytes_of(std::string_view text) {
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

/// A key for `word` and `about`, which nobody makes without `key`.
JobKey key_for(const JobKey& key, std::string_view word, std::span<const std::byte> about) {
  return store::derive(key, joined(bytes_of(word), about));  // the words are of one length
}

/// A random nonce, and the text under it.
Result<Bytes> lock(const JobKey& key, const std::string& text) {
  Bytes box(crypto_secretbox_NONCEBYTES + crypto_secretbox_MACBYTES + text.size());
  RONDE_RETURN_IF_ERROR(fill_random(std::span(box).first(crypto_secretbox_NONCEBYTES)));
  ::crypto_secretbox_easy(raw(box.data() + crypto_secretbox_NONCEBYTES),
                          reinterpret_cast<const unsigned char*>(text.data()), text.size(), raw(box.data()),
                          raw(key.bytes.data()));
  return box;
}

Result<std::string> unlock(const JobKey& key, std::span<const std::byte> box) {
  constexpr std::size_t kOverhead = crypto_secretbox_NONCEBYTES + crypto_secretbox_MACBYTES;
  std::string text(box.size() > kOverhead ? box.size() - kOverhead : 0, '\0');
  if (text.empty() || ::crypto_secretbox_open_easy(
                          reinterpret_cast<unsigned char*>(text.data()), raw(box.data() + crypto_secretbox_NONCEBYTES),
                          box.size() - crypto_secretbox_NONCEBYTES, raw(box.data()), raw(key.bytes.data())) != 0) {
    return Status::error(Code::auth_failed, "who answers has another key");
  }
  return text;
}

class KeySeal final : public Seal {
 public:
  KeySeal(const JobKey& key, const std::string& job) : key_(key_for(key, "desk", bytes_of(job))) {}

  Result<Bytes> ask() override {
    RONDE_RETURN_IF_ERROR(fill_random(nonce_));
    return joined(nonce_, key_for(key_, "ask ", nonce_).bytes);
  }

  Result<Bytes> answer(std::span<const std::byte> asked, const std::string& text) override {
    if (asked.size() != sizeof(Nonce) + kJobKeyBytes) {
      return Status::error(Code::auth_failed, "that is no question");
    }
    const JobKey proof = key_for(key_, "ask ", asked.first(sizeof(Nonce)));
    if (::crypto_verify_32(raw(proof.bytes.data()), raw(asked.data() + sizeof(Nonce))) != 0) {
      return Status::error(Code::auth_failed, "who asks has another key");
    }
    return lock(key_for(key_, "tell", asked.first(sizeof(Nonce))), text);
  }

  Result<std::string> open(std::span<const std::byte> answered) override {
    return unlock(key_for(key_, "tell", nonce_), answered);
  }

 private:
  const JobKey key_;
  Nonce nonce_{};
};

/// An X25519 pair.
struct Pair {
  Nonce secret{};
  Nonce open{};

  static Result<Pair> make() {
    Pair pair;
    RONDE_RETURN_IF_ERROR(fill_random(pair.secret));
    ::crypto_scalarmult_base(raw(pair.open.data()), raw(pair.secret.data()));
    return pair;
  }
  Result<JobKey> shared_with(std::span<const std::byte> other, std::span<const std::byte> asked,
                             const std::string& job) const {
    JobKey shared;
    if (other.size() != sizeof(Nonce) ||
        ::crypto_scalarmult(raw(shared.bytes.data()), raw(secret.data()), raw(other.data())) != 0) {
      return Status::error(Code::auth_failed, "that is no key");
    }
    return key_for(shared, "open", joined(asked, bytes_of(job)));
  }
};

class OpenSeal final : public Seal {
 public:
  explicit OpenSeal(std::string job) : job_(std::move(job)) {}

  Result<Bytes> ask() override {
    RONDE_ASSIGN_OR_RETURN(mine_, Pair::make());
    return Bytes(mine_.open.begin(), mine_.open.end());
  }

  Result<Bytes> answer(std::span<const std::byte> asked, const std::string& text) override {
    RONDE_ASSIGN_OR_RETURN(const Pair pair, Pair::make());
    RONDE_ASSIGN_OR_RETURN(const JobKey key, pair.shared_with(asked, asked, job_));
    RONDE_ASSIGN_OR_RETURN(const Bytes box, lock(key, text));
    return joined(pair.open, box);
  }

  Result<std::string> open(std::span<const std::byte> answered) override {
    if (answered.size() < sizeof(Nonce)) {
      return Status::error(Code::auth_failed, "that is no answer");
    }
    RONDE_ASSIGN_OR_RETURN(const JobKey key, mine_.shared_with(answered.first(sizeof(Nonce)), mine_.open, job_));
    return unlock(key, answered.subspan(sizeof(Nonce)));
  }

 private:
  const std::string job_;
  Pair mine_;
};

}  // namespace

Bytes joined(std::span<const std::byte> first, std::span<const std::byte> second) {
  Bytes all(first.size() + second.size());
  std::copy(first.begin(), first.end(), all.begin());
  std::copy(second.begin(), second.end(), all.begin() + static_cast<std::ptrdiff_t>(first.size()));
  return all;
}

std::unique_ptr<Seal> key_seal(const JobKey& key, const std::string& job) {
  return std::make_unique<KeySeal>(key, job);
}

std::unique_ptr<Seal> open_seal(const std::string& job) { return std::make_unique<OpenSeal>(job); }

Result<std::optional<JobKey>> key_of_user(const Variables& variables) {
  std::optional<std::string> text = variables("RONDE_KEY");
  std::string from = "RONDE_KEY";
  if (!text) {
    const std::optional<std::string> file = variables("RONDE_KEY_FILE");
    if (!file) {
      return std::optional<JobKey>();
    }
    Result<std::string> read = read_private_file(UniqueFd(), *file);
    if (!read) {
      return read.status().with_context("RONDE_KEY_FILE");
    }
    text = std::move(*read);
    from = "RONDE_KEY_FILE, " + *file;
  }
  Result<JobKey> key = parse_job_key(*text);
  return key ? Result<std::optional<JobKey>>(std::optional<JobKey>(*key)) : key.status().with_context(from);
}

}  // namespace ronde::site
