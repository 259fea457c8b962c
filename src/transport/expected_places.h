// ExpectedPlaces: where large messages belong that are expected, so that a link can read them to where they stay and
// nobody has to copy them there (Link::expect_at()).
//
// A message is known by its beginning, a header that no other message of the link has. Its life: it is expected with a
// place; it is placed once its other bytes lie there and its beginning was given out; it is forgotten once whoever got
// the beginning has asked for it, or when the place's owner wants the memory back.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "transport/transport.h"

namespace ronde::transport {

/// Of all channels of one direction of a connection. Few at a time. Owns none of the places. One thread at a time.
class ExpectedPlaces {
 public:
  using Channel = std::uint64_t;
  using Bytes = std::span<const std::byte>;

  /// Requires: kBeginningBytes of `beginning`; no other is expected that begins so.
  void expect_at(Channel channel, Bytes beginning, std::span<std::byte> place) {
    Expected expected{channel, {}, place, false};
    std::copy_n(beginning.begin(), kBeginningBytes, expected.beginning.begin());
    expected_.push_back(expected);
  }
  /// Where the rest of a message belongs that begins so and has so many bytes in all; empty: nowhere.
  std::span<std::byte> place_for(Channel channel, Bytes beginning, std::size_t bytes) const {
    const auto found = find(channel, beginning);
    const bool fits = found != expected_.end() && !found->is_placed && found->place.size() + kBeginningBytes == bytes;
    return fits ? found->place : std::span<std::byte>();
  }
  /// The place's memory is not needed any more. Requires: place_for() has named one.
  void note_placed(Channel channel, Bytes beginning) {
    const auto found = find(channel, beginning);
    found->place = {};
    found->is_placed = true;
  }
  /// Whether the message that begins so was placed. It is forgotten then.
  bool take_placed(Channel channel, Bytes beginning) {
    const auto found = find(channel, beginning);
    const bool is_placed = found != expected_.end() && found->is_placed;
    if (is_placed) {
      expected_.erase(found);
    }
    return is_placed;
  }
  /// Forgets the one that begins so, unless it is placed.
  void forget(Channel channel, Bytes beginning) {
    if (const auto found = find(channel, beginning); found != expected_.end() && !found->is_placed) {
      expected_.erase(found);
    }
  }
  /// Forgets all of a channel but those that are placed.
  void forget_all(Channel channel) {
    std::erase_if(expected_, [channel](const Expected& each) { return each.channel == channel && !each.is_placed; });
  }

 private:
  struct Expected {
    Channel channel;
    std::array<std::byte, kBeginningBytes> beginning;
    std::span<std::byte> place;
    bool is_placed;
  };

  template <typename List>
  static auto find_in(List& list, Channel channel, Bytes beginning) {
    return std::find_if(list.begin(), list.end(), [&](const Expected& each) {
      return each.channel == channel && std::ranges::equal(each.beginning, beginning.first(kBeginningBytes));
    });
  }
  std::vector<Expected>::iterator find(Channel channel, Bytes beginning) {
    return find_in(expected_, channel, beginning);
  }
  std::vector<Expected>::const_iterator find(Channel channel, Bytes beginning) const {
    return find_in(expected_, channel, beginning);
  }

  std::vector<Expected> expected_;
};

}  // namespace ronde::transport
