// Frames between the launcher and its agent on another host, over two pipes, of ssh or srun.
//
// A frame is a u32 of its length, a byte that says what it is, so many bytes, and a newline: srun passes on what a
// program prints when a line is complete. Both ends are the same version of one program on machines of one byte order
// (the agent's first frame says which version), so numbers are their memory.
#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"

namespace ronde::launch {

enum class FrameKind : std::uint8_t {
  // From the agent.
  hello = 1,       ///< AgentHello, as JSON
  ready = 2,       ///< the plan can be followed
  refused = 3,     ///< an i32, the launcher's exit code, and why it cannot, in one sentence; the last frame
  report = 4,      ///< RankReport
  output = 5,      ///< OutputHead, then what a rank has printed
  output_end = 6,  ///< OutputHead: a rank has closed its stream
  echo = 7,        ///< the moment of a beat, and the agent's own
  // From the launcher.
  plan = 16,     ///< AgentPlan, as JSON
  start = 17,    ///< all hosts are ready
  command = 18,  ///< Command
  beat = 19,     ///< the launcher's moment
  // Both ways: connections of ranks to the job's store.
  open = 32,      ///< from the agent. A u64: the connection
  packet = 33,    ///< a u64, then the packet
  close_it = 34,  ///< a u64
  file = 35,      ///< a piece of a file (carried_folder.h)
};

struct Frame {
  FrameKind kind{};
  std::string bytes;
};

/// One end; never blocks. One thread.
class FramePipe {
 public:
  /// What the other end may make this one hold.
  static constexpr std::size_t kMaxFrameBytes = 64 << 20;
  /// An agent's first bytes. What a shell's start files print before them is skipped.
  static constexpr std::string_view kGreeting = "\nRONDE-AGENT\n";
  static constexpr std::size_t kMaxNoiseBytes = 1 << 20;

  FramePipe() = default;
  /// Reads from `in`, writes to `out`, both made non-blocking. `expects_greeting`: of the other end.
  FramePipe(UniqueFd in, UniqueFd out, bool expects_greeting);

  /// Takes the bytes as they are: the greeting.
  void put_raw(std::string bytes);
  void put(FrameKind kind, std::string_view bytes);
  /// Both parts together are the frame's bytes.
  void put(FrameKind kind, std::string_view head, std::string_view bytes);
  std::size_t waiting_bytes() const { return waiting_; }

  /// Adds the descriptors. Requires: move() gets the same entries after the poll.
  void watch(std::vector<pollfd>& entries, bool for_reading = true) const;
  /// Writes and reads what goes.
  void move(const std::vector<pollfd>& entries);
  /// Writes what goes.
  void flush();
  /// The next frame that has come whole.
  std::optional<Frame> take();
  /// No frame comes any more: the other end has gone, or what it sent makes no sense.
  bool has_ended() const { return ended_ && !has_frame(); }
  /// Why, where it is more than an end.
  const std::string& damage() const { return damage_; }
  /// What came instead of a greeting.
  const std::string& noise() const { return noise_; }
  void close();

 private:
  void read();
  bool has_frame() const;
  void skip_noise();

  UniqueFd in_;
  UniqueFd out_;
  bool expects_greeting_ = false;
  bool ended_ = false;
  std::string damage_;
  std::string noise_;
  std::string got_;
  std::size_t used_ = 0;  ///< of got_
  std::deque<std::string> queue_;
  std::size_t written_ = 0;  ///< of the queue's first
  std::size_t waiting_ = 0;
};

}  // namespace ronde::launch
