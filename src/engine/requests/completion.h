// Completion: how requests end. The ticket gets its status, its callback is queued and who waits is woken. The observer
// is told of those that end one by one.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "engine/requests/counters.h"
#include "engine/requests/ticket.h"
#include "observe/observer.h"

namespace ronde::engine {

/// Under the progress lock, except where it says otherwise.
class Completion {
 public:
  /// `counters`: of the engine whose requests these are. Both must outlive this.
  Completion(const Clock& clock, Counters& counters) : clock_(clock), counters_(counters) {}

  /// `on_finished` after one or several tickets have finished, to wake who waits; `on_callback` for each that has a
  /// callback, to queue it, with how it ended and what it owned. Set once.
  using CallbackHook = std::function<void(const TicketPtr&, Status, std::shared_ptr<void>)>;
  void set_hooks(std::function<void()> on_finished, CallbackHook on_callback) {
    on_finished_ = std::move(on_finished);
    on_callback_ = std::move(on_callback);
  }
  /// Null: nobody.
  void observe(observe::Observer* observer) { observer_ = observer; }

  /// Nothing if the ticket is done already.
  void finish(const TicketPtr& ticket, Status status);
  /// The request that finish() is called for next ends since other ranks did not come in time.
  void note_let_down() {
    let_down_at_.store(counters_.requests.load(std::memory_order_relaxed), std::memory_order_relaxed);
  }
  /// These have ended well: each gets its end, and is then taken from the list. Who waits is told once for all of them.
  /// True if there was one. Throws what a hook throws (no memory to queue a callback in, say): those not reached stay
  /// in the list.
  bool finish_all(std::vector<TicketPtr>& completed);

  // ---- Any thread.

  /// Some of the engine's requests have not ended.
  bool has_outstanding() const {
    return finished_.load(std::memory_order_relaxed) != counters_.requests.load(std::memory_order_relaxed);
  }
  /// The last request to be submitted has failed since other ranks did not come in time, and none is outstanding.
  bool is_let_down() const {
    const std::uint64_t requests = counters_.requests.load(std::memory_order_relaxed);
    return let_down_at_.load(std::memory_order_relaxed) == requests && requests > 0 && !has_outstanding();
  }

 private:
  void end(const TicketPtr& ticket, Status status);

  const Clock& clock_;
  Counters& counters_;
  observe::Observer* observer_ = nullptr;
  std::function<void()> on_finished_;
  CallbackHook on_callback_;
  std::atomic<std::uint64_t> finished_{0};     ///< of the counter `requests`
  std::atomic<std::uint64_t> let_down_at_{0};  ///< the counter `requests` when the time of one was up last
};

}  // namespace ronde::engine
