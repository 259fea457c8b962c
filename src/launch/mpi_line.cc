#include "launch/mpi_line.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "launch/login.h"

namespace ronde::launch {

namespace {

using Words = std::vector<std::string>;

void add(Words& line, Words more) { line.insert(line.end(), more.begin(), more.end()); }

/// The name of each host, and behind it the slots if `separator` is given: "node1:4,node2:4".
std::string list_of(const std::vector<HostSlots>& hosts, bool has_slots) {
  std::string list;
  for (const HostSlots& host : hosts) {
    list += (list.empty() ? "" : ",") + host.name + (has_slots ? ":" + std::to_string(host.slots) : "");
  }
  return list;
}

bool are_even(const std::vector<HostSlots>& hosts) {
  return std::all_of(hosts.begin(), hosts.end(),
                     [&](const HostSlots& host) { return host.slots == hosts.front().slots; });
}

const char* name_of(Binding binding) {
  switch (binding) {
    case Binding::core: return "core";
    case Binding::numa: return "numa";
    case Binding::none: break;
  }
  return "none";
}

std::string joined_by_commas(const Words& words) {
  std::string text;
  for (const std::string& word : words) {
    text += (text.empty() ? "" : ",") + word;
  }
  return text;
}

/// Without hosts it counts this one's cores as slots, and lets ranks beyond them yield, which named slots would not.
Words open_mpi_options(const MpiLauncher& launcher, const MpiJob& job) {
  Words line;
  if (job.is_root) {
    add(line, {"--allow-run-as-root"});
  }
  add(line, {"-np", std::to_string(job.ranks)});
  if (job.hosts.empty()) {
    add(line, {"--map-by", "slot:OVERSUBSCRIBE"});
  } else {
    add(line, {"-H", list_of(job.hosts, true), "--map-by", "slot"});
    for (const std::string& name : job.variables) {
      add(line, {"-x", name});
    }
  }
  add(line, {"--bind-to", name_of(job.binding)});
  if (!job.ssh.empty() && !job.hosts.empty()) {
    add(line,
        launcher.major >= 5 ? Words{"--prtemca", "plm_ssh_agent", job.ssh} : Words{"--mca", "plm_rsh_agent", job.ssh});
  }
  if (launcher.major >= 5 && (job.prefix || !job.output_folder.empty())) {
    const std::string folder = job.output_folder.empty() ? "" : "dir=" + job.output_folder;
    add(line, {"--output", !job.prefix ? folder : folder.empty() ? "tag" : "tag," + folder});
  }
  if (launcher.major < 5 && job.prefix) {
    add(line, {"--tag-output"});
  }
  if (launcher.major < 5 && !job.output_folder.empty()) {
    add(line, {"--output-filename", job.output_folder});
  }
  if (!job.folder.empty()) {
    add(line, {"-wdir", job.folder});
  }
  return line;
}

/// Of Hydra, which MPICH and Intel MPI have. Ranks get its environment; the list says so where the site's settings do
/// not.
Result<Words> hydra_options(const MpiLauncher& launcher, const MpiJob& job) {
  const bool is_intel = launcher.kind == MpiKind::intel;
  Words line;
  if (!job.hosts.empty()) {
    if (is_intel && !are_even(job.hosts)) {
      return Status::error(Code::invalid_argument,
                           "Intel MPI's launcher takes as many ranks on each host, and " + list_of(job.hosts, true) +
                               " has not: name hosts by --mpi-args '-machinefile FILE' in place of -H");
    }
    add(line, {"-hosts", list_of(job.hosts, !is_intel)});
    if (is_intel) {
      add(line, {"-ppn", std::to_string(job.hosts.front().slots)});
    }
    add(line, {"-genvlist", joined_by_commas(job.variables)});
  }
  if (is_intel) {
    add(line, {"-genv", "I_MPI_PIN", job.binding == Binding::none ? "0" : "1"});
    if (job.binding != Binding::none) {
      add(line, {"-genv", "I_MPI_PIN_DOMAIN", name_of(job.binding)});
    }
  } else if (job.binding != Binding::none) {
    add(line, {"-bind-to", name_of(job.binding)});
  }
  if (job.prefix) {
    add(line, {"-prepend-rank"});
  }
  if (!job.folder.empty()) {
    add(line, {"-wdir", job.folder});
  }
  add(line, {"-n", std::to_string(job.ranks)});
  return line;
}

/// A rank that fails ends the step, as the other launchers do.
Words srun_options(const MpiJob& job) {
  Words line = {"--ntasks=" + std::to_string(job.ranks), "--kill-on-bad-exit=1"};
  if (!job.hosts.empty()) {
    add(line, {"--nodes=" + std::to_string(job.hosts.size()), "--nodelist=" + list_of(job.hosts, false),
               "--distribution=block"});
    if (are_even(job.hosts)) {
      add(line, {"--ntasks-per-node=" + std::to_string(job.hosts.front().slots)});
    }
  }
  switch (job.binding) {
    case Binding::none: add(line, {"--cpu-bind=none"}); break;
    case Binding::core: add(line, {"--cpu-bind=cores"}); break;
    case Binding::numa: add(line, {"--cpu-bind=ldoms"}); break;
  }
  if (job.prefix) {
    add(line, {"--label"});
  }
  if (!job.folder.empty()) {
    add(line, {"--chdir=" + job.folder});
  }
  return line;
}

/// The first number behind `mark`, 0 if there is none.
int number_behind(const std::string& text, std::string_view mark) {
  const std::size_t at = text.find(mark);
  return at == std::string::npos ? 0 : std::atoi(text.c_str() + at + mark.size());
}

}  // namespace

Result<MpiLauncher> mpi_launcher_of(const std::string& program, const std::string& said) {
  const std::string version = said.substr(0, said.find('\n'));
  if (program.substr(program.rfind('/') + 1) == "srun") {
    return MpiLauncher{program, MpiKind::srun, 0, version};
  }
  for (const char* const mark : {"(Open MPI)", "(OpenRTE)"}) {
    if (said.find(mark) != std::string::npos) {
      return MpiLauncher{program, MpiKind::open_mpi, number_behind(said, mark), version};
    }
  }
  if (said.find("Intel(R) MPI") != std::string::npos) {
    return MpiLauncher{program, MpiKind::intel, 0, version};
  }
  if (said.find("HYDRA") != std::string::npos) {
    const std::string of = "MPICH's Hydra " + std::to_string(number_behind(said, "Version:"));
    return MpiLauncher{program, MpiKind::mpich, 0, of};
  }
  return Status::error(Code::not_implemented, "the launchers of Open MPI, MPICH, Intel MPI and Slurm are known, and '" +
                                                  program + "' is none of them: it answers --version with '" + version +
                                                  "'");
}

Result<Words> mpi_line(const MpiLauncher& launcher, const MpiJob& job) {
  if (launcher.kind != MpiKind::open_mpi && !job.output_folder.empty()) {
    return Status::error(Code::invalid_argument, "--output-dir: '" + launcher.program +
                                                     "' has no option for it that leaves what ranks print where it is: "
                                                     "say it in its words, by --mpi-args");
  }
  if ((launcher.kind == MpiKind::mpich || launcher.kind == MpiKind::intel) && !job.ssh.empty() && !job.hosts.empty()) {
    return Status::error(Code::invalid_argument, "--ssh, or RONDE_SSH: '" + launcher.program +
                                                     "' takes a program without words: name one by --mpi-args "
                                                     "'-launcher ssh -launcher-exec PATH'");
  }
  Words line = {launcher.program};
  switch (launcher.kind) {
    case MpiKind::open_mpi: add(line, open_mpi_options(launcher, job)); break;
    case MpiKind::srun: add(line, srun_options(job)); break;
    case MpiKind::mpich:
    case MpiKind::intel: {
      RONDE_ASSIGN_OR_RETURN(const Words options, hydra_options(launcher, job));
      add(line, options);
    }
  }
  add(line, job.options);
  add(line, job.command);
  return line;
}

Result<Words> split_words(std::string_view text) {
  Words words;
  bool is_within = false;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote == 0 && std::isspace(static_cast<unsigned char>(c)) != 0) {
      is_within = false;
      continue;
    }
    if (!is_within) {
      words.emplace_back();
      is_within = true;
    }
    if (c == '\\' && quote != '\'' && i + 1 < text.size()) {
      words.back() += text[++i];
    } else if (quote == c) {
      quote = 0;
    } else if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else {
      words.back() += c;
    }
  }
  if (quote != 0) {
    return Status::error(Code::invalid_argument, "a quote is not closed in: " + std::string(text));
  }
  return words;
}

std::string joined(const Words& words) {
  constexpr std::string_view kPlain = "@%+=:,./-_";
  std::string text;
  for (const std::string& word : words) {
    const bool is_plain = !word.empty() && std::all_of(word.begin(), word.end(), [&](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || kPlain.find(c) != std::string_view::npos;
    });
    text += (text.empty() ? "" : " ") + (is_plain ? word : quoted(word));
  }
  return text;
}

}  // namespace ronde::launch
