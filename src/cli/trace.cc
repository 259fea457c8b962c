#include "cli/trace.h"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "cli/help/help.h"
#include "cli/trace_merge.h"

namespace ronde::cli {

namespace {

constexpr const char* kTraceAbout = "Works on timelines: what happened to every tensor of a job, and when";
constexpr const char* kMergeAbout = "Makes one timeline of those of all ranks, on one clock";

constexpr const char* kTraceFooter =
    R"(A job writes its timelines with RONDE_TIMELINE=trace.json in its environment, or with hvd.start_timeline():
trace.json is rank 0's, trace.json.1 rank 1's, and so on.)";

constexpr const char* kMergeFooter = R"(Examples:
  RONDE_TIMELINE=trace.json ronde run -n 2 -- python train.py
  ronde trace merge trace.json trace.json.1 -o all.json

Open the result at https://ui.perfetto.dev or chrome://tracing. Each rank is a process there and each tensor a thread of
it; NEGOTIATE_ALLREDUCE lasts until the last rank was ready, and on rank 0 a mark named after each rank says when that
one was. Files of ranks that were killed, and of a job that still runs, can be merged too.

Ranks of one machine are aligned by its own clock, to less than a microsecond. Those of several machines have compared
their clocks as they met: how closely is said. Files of an older Ronde are aligned by the time of day.

Exit codes:
  0          the file is written
  1          a file cannot be read or written, or is no timeline
  2          wrong usage)";

struct TraceFiles {
  std::vector<std::string> files;
  std::string output;
};

Status write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  return file ? Status() : Status::error(Code::system_error, "'" + path + "' cannot be written");
}

Status merge(const TraceFiles& arguments) {
  for (const std::string& file : arguments.files) {
    std::error_code none;
    if (std::filesystem::equivalent(file, arguments.output, none)) {
      return Status::error(Code::invalid_argument, "'" + arguments.output +
                                                       "' is one of the files to merge; "
                                                       "give --output another name");
    }
  }
  RONDE_ASSIGN_OR_RETURN(const MergedTrace merged, merge_traces(arguments.files));
  RONDE_RETURN_IF_ERROR(write_text(arguments.output, merged.text));
  for (const std::string& note : merged.notes) {
    std::fprintf(stderr, "ronde trace: %s\n", note.c_str());
  }
  std::printf("%s: %zu events of %zu rank%s; open it at https://ui.perfetto.dev\n", arguments.output.c_str(),
              merged.events, merged.ranks, merged.ranks == 1 ? "" : "s");
  return {};
}

}  // namespace

void add_trace_command(CLI::App& app) {
  auto arguments = std::make_shared<TraceFiles>();
  CLI::App* const trace = app.add_subcommand("trace", kTraceAbout);
  trace->formatter(std::make_shared<HelpFormatter>("trace COMMAND [OPTIONS]"));
  trace->footer(kTraceFooter);
  trace->require_subcommand(1);
  CLI::App* const command = trace->add_subcommand("merge", kMergeAbout);
  command->formatter(std::make_shared<HelpFormatter>("trace merge FILES... -o OUTPUT"));
  command->footer(kMergeFooter);
  command->add_option("FILES", arguments->files, "a timeline of each rank, in any order")->required();
  command->add_option("-o,--output", arguments->output, "where to write; one that exists is replaced")
      ->required()
      ->type_name("OUTPUT");
  command->callback([arguments] {
    if (Status status = merge(*arguments); !status) {
      std::fprintf(stderr, "ronde trace: %s\n", status.message().c_str());
      throw CLI::RuntimeError(1);
    }
  });
}

}  // namespace ronde::cli
