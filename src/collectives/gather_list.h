// GatherList: memory that lies in pieces, seen as one long list of bytes without moving any.
#pragma once

#include <cstddef>
#include <vector>

#include "types/plan.h"

namespace ronde::collectives {

/// A list of segments, each with a place to read from and a place to write to; positions count through them in order.
/// Owns no memory but its own.
class GatherList {
 public:
  struct Segment {
    const std::byte* from;
    std::byte* to;
    std::size_t end;  ///< position behind it
  };

  GatherList() = default;
  /// The members of a plan, from inputs to outputs. Every member is of the plan's element type, so a position that is
  /// a multiple of the element's size lies on an element boundary of some member.
  explicit GatherList(const Plan& plan);

  /// Keeps no segment without bytes.
  void append(const void* from, void* to, std::size_t bytes);
  std::size_t segment_count() const { return segments_.size(); }
  const Segment& segment(std::size_t index) const { return segments_[index]; }
  /// Other memory of the same size for a segment. Different segments may be rebound by different threads at once.
  void rebind(std::size_t index, const void* from, void* to);
  /// True if some segment is written where it is read.
  bool any_in_place() const;
  std::size_t bytes() const { return segments_.empty() ? 0 : segments_.back().end; }

  /// Calls visit(from, to, bytes, position) for each segment's part of [begin, end), in order.
  template <typename Visit>
  void for_each(std::size_t begin, std::size_t end, Visit&& visit) const {
    std::size_t index = begin < end ? segment_at(begin) : 0;
    for (std::size_t at = begin; at < end; ++index) {
      const Segment& segment = segments_[index];
      const std::size_t offset = at - (index == 0 ? 0 : segments_[index - 1].end);
      const std::size_t stop = segment.end < end ? segment.end : end;
      if (stop > at) {
        visit(segment.from + offset, segment.to + offset, stop - at, at);
        at = stop;
      }
    }
  }

  /// Copies what is read at [begin, end) to `to`.
  void gather(std::size_t begin, std::size_t end, std::byte* to) const;
  /// Copies `from` to where [begin, end) is written.
  void scatter(std::size_t begin, std::size_t end, const std::byte* from) const;
  /// The same past the caches; streams_done() must follow.
  void scatter_streaming(std::size_t begin, std::size_t end, const std::byte* from) const;
  /// Copies [begin, end) from where it is read to where it is written, unless that is the same memory.
  void carry_over(std::size_t begin, std::size_t end) const;

 private:
  std::size_t segment_at(std::size_t position) const;

  std::vector<Segment> segments_;
};

}  // namespace ronde::collectives
