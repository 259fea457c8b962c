#include "observe/event_buffer.h"

#include <utility>

namespace ronde::observe {

EventBuffer::EventBuffer(std::size_t room) : room_(room) {
  waiting_.reserve(room);  // address space, no memory yet; so put() need not ask for any
}

bool EventBuffer::put(std::string_view event, std::size_t reserve, std::uint64_t lost) {
  std::lock_guard lock(mutex_);
  if (waiting_.size() + kSeparator.size() + event.size() + reserved_ + reserve > room_) {
    lost_ += lost;
    total_lost_ += lost;
    return false;
  }
  reserved_ += reserve;
  append(event);
  return true;
}

void EventBuffer::put_reserved(std::string_view event, std::size_t reserved) {
  std::lock_guard lock(mutex_);
  reserved_ -= reserved;
  append(event);
}

/// Wakes the taker only when it sleeps for want of events, or had better not wait for more of them.
void EventBuffer::append(std::string_view event) {
  const bool was_empty = waiting_.empty();
  const bool was_half_full = is_half_full();
  waiting_ += kSeparator;
  waiting_ += event;
  if (was_empty || (!was_half_full && is_half_full())) {
    wake_.notify_one();
  }
}

void EventBuffer::count_lost(std::uint64_t events) {
  std::lock_guard lock(mutex_);
  lost_ += events;
  total_lost_ += events;
}

void EventBuffer::count_lost_after_take(std::uint64_t events, std::uint64_t told) {
  std::lock_guard lock(mutex_);
  total_lost_ += events;
  lost_ += is_closed_ ? 0 : events + told;
}

std::uint64_t EventBuffer::lost() const {
  std::lock_guard lock(mutex_);
  return total_lost_;
}

bool EventBuffer::take(std::string& events, std::uint64_t& lost, std::chrono::milliseconds gather) {
  std::unique_lock lock(mutex_);
  if (is_closed_ && waiting_.empty() && lost_ == 0) {
    return false;
  }
  wake_.wait(lock, [this] { return is_closed_ || !waiting_.empty(); });
  wake_.wait_for(lock, gather, [this] { return is_closed_ || is_half_full(); });
  events.clear();
  events.swap(waiting_);
  lost = std::exchange(lost_, 0);
  return true;
}

void EventBuffer::close() {
  {
    std::lock_guard lock(mutex_);
    is_closed_ = true;
  }
  wake_.notify_one();
}

}  // namespace ronde::observe
