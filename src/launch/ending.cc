#include "launch/ending.h"

#include <signal.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

namespace ronde::launch {

namespace {

std::string seconds(Nanoseconds span) {
  const Nanoseconds tenths = (std::max<Nanoseconds>(span, 0) + 50 * kMillisecond) / (100 * kMillisecond);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

std::string signal_text(int number) { return "signal " + std::to_string(number) + " (" + signal_name(number) + ")"; }

std::string end_text(const RankEnd& end, bool plural) {
  if (end.by_signal) {
    return (plural ? "were killed by " : "was killed by ") + signal_text(end.number);
  }
  return "ended with code " + std::to_string(end.number);
}

/// "; ranks 0, 2"
std::string ranks_text(std::vector<RankEnd> ends) {
  std::sort(ends.begin(), ends.end(), [](const RankEnd& a, const RankEnd& b) { return a.rank < b.rank; });
  std::string text = ends.size() > 1 ? "; ranks " : "; rank ";
  for (std::size_t i = 0; i < ends.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(ends[i].rank);
  }
  return text;
}

/// "; ranks 0, 2 then ended with code 1; rank 3 then was killed by ...", grouped by the kind of end.
std::string followers(const std::vector<RankEnd>& ends, std::size_t from) {
  std::vector<std::vector<RankEnd>> groups;
  for (std::size_t i = from; i < ends.size(); ++i) {
    const auto same = [&](const std::vector<RankEnd>& group) {
      return group[0].by_signal == ends[i].by_signal && group[0].number == ends[i].number;
    };
    const auto found = std::find_if(groups.begin(), groups.end(), same);
    found == groups.end() ? groups.push_back({ends[i]}) : found->push_back(ends[i]);
  }
  std::string text;
  for (const std::vector<RankEnd>& group : groups) {
    text += ranks_text(group) + " then " + end_text(group[0], group.size() > 1);
  }
  return text;
}

}  // namespace

std::string signal_name(int number) {
  constexpr std::array<std::pair<int, const char*>, 20> names = {{
      {SIGHUP, "SIGHUP"},   {SIGINT, "SIGINT"},   {SIGQUIT, "SIGQUIT"}, {SIGILL, "SIGILL"},   {SIGTRAP, "SIGTRAP"},
      {SIGABRT, "SIGABRT"}, {SIGBUS, "SIGBUS"},   {SIGFPE, "SIGFPE"},   {SIGKILL, "SIGKILL"}, {SIGUSR1, "SIGUSR1"},
      {SIGSEGV, "SIGSEGV"}, {SIGUSR2, "SIGUSR2"}, {SIGPIPE, "SIGPIPE"}, {SIGALRM, "SIGALRM"}, {SIGTERM, "SIGTERM"},
      {SIGXCPU, "SIGXCPU"}, {SIGXFSZ, "SIGXFSZ"}, {SIGSYS, "SIGSYS"},   {SIGIO, "SIGIO"},     {SIGPWR, "SIGPWR"},
  }};
  for (const auto& [value, name] : names) {
    if (value == number) {
      return name;
    }
  }
  return "signal " + std::to_string(number);
}

std::size_t put_first_failure_first(std::vector<RankEnd>& ends) {
  const auto first = std::find_if(ends.begin(), ends.end(), [](const RankEnd& end) { return end.failed(); });
  auto cause = first;
  if (first->let_down) {
    // Whom a signal has ended may have been told to end for this failure.
    for (auto end = first + 1; end != ends.end(); ++end) {
      const bool may_be = end->number != 0 && !end->by_signal && !end->let_down && end->left != 0;
      if (may_be && end->left < (cause == first ? first->moment : cause->left)) {
        cause = end;
      }
    }
  }
  std::rotate(first, cause, cause + 1);
  const auto after = std::stable_partition(first + 1, ends.end(), [&](const RankEnd& end) {
    return first->let_down && !end.failed() && end.left != 0 && end.left < first->moment;
  });
  std::rotate(first, first + 1, after);
  return static_cast<std::size_t>(after - 1 - ends.begin());
}

std::string failure_sentence(const std::vector<RankEnd>& ends, std::size_t first, std::string_view host,
                             Nanoseconds started) {
  const RankEnd& end = ends[first];
  const std::string before = first == 0 || !end.let_down ? "" : ranks_text({ends.data(), &end}) + " had left before";
  return "rank " + std::to_string(end.rank) + " on " + std::string(host) + " " + end_text(end, false) + " after " +
         seconds(end.moment - started) + followers(ends, first + 1) + before;
}

std::string launcher_sentence(std::string_view program, const RankEnd& end, Nanoseconds started) {
  return std::string(program) + " " + end_text(end, false) + " after " + seconds(end.moment - started);
}

std::string stop_sentence(int signal, const std::vector<RankEnd>& ends, std::size_t ends_before_stop,
                          Nanoseconds started, Nanoseconds stopped) {
  // Of this signal nobody thinks that it is what `| head` does.
  const std::string cause =
      signal == SIGPIPE ? "stopped, since the reader of its output has gone," : "stopped by " + signal_text(signal);
  return cause + " after " + seconds(stopped - started) + followers(ends, ends_before_stop);
}

StartFailure start_failure(int rank, const std::string& command, bool of_exec, int error_number) {
  const std::string reason = std::generic_category().message(error_number);
  if (!of_exec) {
    return {"cannot make the process of rank " + std::to_string(rank) + ": " + reason, kLauncherExit};
  }
  if (error_number == ENOENT && command.find('/') == std::string::npos) {
    return {"command not found: '" + command + "' is in no folder of PATH", kNotFoundExit};
  }
  if (error_number == ENOENT) {
    return {"command not found: there is no '" + command + "', or not the interpreter that it names", kNotFoundExit};
  }
  return {"cannot run '" + command + "': " + reason, kNotRunnableExit};
}

}  // namespace ronde::launch
