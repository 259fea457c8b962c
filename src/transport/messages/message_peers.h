// MessagePeers: what members of a group that share no memory tell each other of their life (left, frozen, quiet, given
// up). They tell it by notes: messages of their mailboxes, in order with their data. So whoever has read that a member
// is frozen in an epoch has received all data that the member had sent in that epoch before.
#pragma once

#include <atomic>
#include <functional>
#include <vector>

#include "transport/messages/mailbox.h"
#include "transport/peers.h"

namespace ronde::transport {

class MessagePeers final : public Peers {
 public:
  /// `mailbox`, whose notes are this one's, must outlive this. `wake_self` wakes who sleeps in this member; never
  /// blocks.
  MessagePeers(Mailbox& mailbox, std::function<void()> wake_self);

  /// Called before this member tells the others that it is frozen: sends what it has published, whether links have room
  /// or not. Set once.
  void before_frozen(std::function<void()> announce) { announce_ = std::move(announce); }

  int self() const override { return mailbox_.rank(); }
  int size() const override { return mailbox_.size(); }

  void say_departed(Departure how) override;
  void say_frozen(std::uint32_t epoch, std::uint32_t reason) override;
  void say_quiet(const std::vector<int>& lost) override;
  void say_given_up() override;
  void wake(int member) override;
  void wake_others() override;
  bool receive() override;

  // ---- As far as notes have been received.

  Departure departure(int member) const override { return of(member).departure; }
  /// Of this member: the epoch once the others have been told. They are told with it which instances it has published,
  /// which it can say only until it goes on after the decision.
  std::uint32_t frozen_in(int member) const override { return member == self() ? told_frozen_ : of(member).frozen; }
  bool is_quiet_about(int member, int lost) const override { return of(member).quiet[static_cast<std::size_t>(lost)]; }
  bool has_given_up(int member) const override { return of(member).given_up; }
  bool has_any_given_up() const override { return any_given_up_; }

 private:
  enum class Word : std::uint32_t { departed, frozen, quiet, given_up, wake };

  struct Member {
    Departure departure = Departure::none;
    std::uint32_t frozen = 0;
    bool given_up = false;
    std::vector<bool> quiet;
  };

  const Member& of(int member) const { return members_[static_cast<std::size_t>(member)]; }
  void tell(int member, Word word, std::uint32_t value = 0);
  void tell_all(Word word, std::uint32_t value = 0);
  void read(int from, std::span<const std::byte> note);
  /// False if it is no word that a member can say.
  bool take(int from, Word word, std::uint32_t value);

  Mailbox& mailbox_;
  const std::function<void()> wake_self_;
  std::function<void()> announce_;
  std::vector<Member> members_;
  bool any_given_up_ = false;
  std::atomic<std::uint32_t> own_frozen_{0};
  std::uint32_t told_frozen_ = 0;  ///< what of it the others have been told
};

}  // namespace ronde::transport
