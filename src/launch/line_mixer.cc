#include "launch/line_mixer.h"

#include <algorithm>

namespace ronde::launch {

LineMixer::Source& LineMixer::source(int rank, int stream) {
  Source& source = sources_[{rank, stream}];
  source.rank = rank;
  source.stream = stream;
  return source;
}

void LineMixer::take(int rank, int stream, std::string_view text, Nanoseconds now) {
  Source& from = source(rank, stream);
  if (rank == settings_.live_rank) {
    take_live(from, text, now);
  } else {
    take_plain(from, text);
  }
}

void LineMixer::take_plain(Source& from, std::string_view text) {
  std::string lines;
  const auto finish = [&] {
    lines += prefix(from) + from.segment + "\n";
    from.segment.clear();
    from.carriage = false;
  };
  while (!text.empty()) {
    if (from.carriage && text.front() != '\n' && text.front() != '\r') {
      from.segment.clear();
      from.carriage = false;
    }
    const std::size_t run = std::min({text.find_first_of("\r\n"), text.size(), kMaxLineBytes - from.segment.size()});
    from.segment += text.substr(0, run);
    text.remove_prefix(run);
    if (from.segment.size() >= kMaxLineBytes) {
      finish();
    } else if (!text.empty()) {
      text.front() == '\n' ? finish() : void(from.carriage = true);
      text.remove_prefix(1);
    }
  }
  if (!lines.empty()) {
    put_lines(from, lines);
  }
}

void LineMixer::take_live(Source& from, std::string_view text, Nanoseconds now) {
  while (!text.empty()) {
    if (from.carriage && text.front() != '\n' && text.front() != '\r') {
      if (open_ == &from) {
        put(from, "\r");
      }
      from.segment.clear();
      from.shown = 0;
      from.broken = from.carriage = false;
    }
    const std::size_t run = std::min({text.find_first_of("\r\n"), text.size(), kMaxLineBytes - from.segment.size()});
    if (run > 0) {
      from.segment += text.substr(0, run);
      from.waiting_since = is_data(from) ? kNever : std::min(from.waiting_since, now);
      text.remove_prefix(run);
    }
    if (from.segment.size() >= kMaxLineBytes) {
      finish_live(from);
    } else if (!text.empty()) {
      if (text.front() == '\n') {
        finish_live(from);
      } else {
        show_live(from);
        from.carriage = true;
      }
      text.remove_prefix(1);
    }
  }
}

/// Nothing that somebody waits to read while it is printed. What has been begun is gone on with.
bool LineMixer::is_data(const Source& from) { return from.shown == 0 && from.segment.size() > kMaxPartialBytes; }

void LineMixer::show_live(Source& from) {
  from.waiting_since = kNever;
  if (from.shown == from.segment.size()) {
    return;
  }
  if (open_ == &from && from.shown > 0) {
    put(from, std::string_view(from.segment).substr(from.shown));
  } else {
    if (open_ != nullptr && open_ != &from) {
      put(*open_, "\n");
      open_->broken = true;
    }
    open_ = &from;
    put(from, prefix(from) + from.segment);
  }
  from.shown = from.segment.size();
  from.broken = false;
}

void LineMixer::finish_live(Source& from) {
  if (open_ == &from) {
    show_live(from);
    put(from, "\n");
    open_ = nullptr;
  } else if (!from.broken || from.shown != from.segment.size()) {
    put_lines(from, prefix(from) + from.segment + "\n");
  }
  from.segment.clear();
  from.shown = 0;
  from.broken = from.carriage = false;
  from.waiting_since = kNever;
}

void LineMixer::put_lines(const Source& from, const std::string& lines) {
  if (open_ == nullptr) {
    put(from, lines);
    return;
  }
  if (settings_.terminal) {
    put(*open_, "\r\x1b[K");
    put(from, lines);
    put(*open_, prefix(*open_) + open_->segment.substr(0, open_->shown));
  } else {
    put(*open_, "\n");
    put(from, lines);
    open_->broken = true;
    open_ = nullptr;
  }
}

void LineMixer::end(int rank, int stream) {
  Source& from = source(rank, stream);
  if (rank != settings_.live_rank) {
    if (!from.segment.empty()) {
      take_plain(from, "\n");
    }
  } else if (open_ == &from || !from.segment.empty()) {
    finish_live(from);
  }
}

void LineMixer::announce(int stream, std::string_view line) {
  Source own;
  own.stream = stream;
  put_lines(own, std::string(line) + "\n");
}

void LineMixer::flush(Nanoseconds now) {
  for (auto& [key, each] : sources_) {
    if (each.waiting_since != kNever && now >= later(each.waiting_since, kPartialDelay)) {
      show_live(each);
    }
  }
}

Nanoseconds LineMixer::next_deadline() const {
  Nanoseconds next = kNever;
  for (const auto& [key, each] : sources_) {
    next = std::min(next, later(each.waiting_since, each.waiting_since == kNever ? 0 : kPartialDelay));
  }
  return next;
}

void LineMixer::put(const Source& from, std::string_view text) {
  if (output_.empty() || output_.back().stream != from.stream) {
    output_.push_back({from.stream, {}});
  }
  output_.back().text += text;
}

std::string LineMixer::prefix(const Source& from) const {
  if (!settings_.prefix) {
    return {};
  }
  const std::string text = "[" + std::to_string(from.rank) + "]";
  if (!settings_.color) {
    return text + " ";
  }
  // The six colours that are neither black nor white, so that they can be read on either.
  return "\x1b[" + std::to_string(31 + (from.rank + 1) % 6) + "m" + text + "\x1b[0m ";
}

}  // namespace ronde::launch
