#include "cli/doctor.h"

#include <CLI/CLI.hpp>

#include <memory>

#include "base/host_name.h"
#include "cli/help/help.h"
#include "cli/host_options.h"
#include "doctor/doctor.h"

namespace ronde::cli {

namespace {

constexpr const char* kAboutDoctor =
    "Looks whether a job can run here, or on several hosts, and says what to do where not";

constexpr const char* kDoctorFooter = R"(Examples:
  ronde doctor                             this machine: shared memory, limits, clock, Python and its frameworks
  ronde doctor -H node1,node2,node3        also ssh to each, and every pair of them both ways: connection, time of a
                                           message, bytes a second, clocks; versions that differ
  ronde doctor -H node1,node2 --json       the same for programs

Each line is ok, a notice (good to know), a warning (may go wrong) or a failure (will). Nothing is changed.

Exit codes: 0 without failures; 1 with; 125 if a host cannot be reached; 2 for wrong usage.)";

struct DoctorArguments {
  HostOptions where;
  bool json = false;
  bool is_of_a_job = false;
};

int examine(const DoctorArguments& arguments) {
  if (arguments.is_of_a_job) {
    return doctor::examine_as_rank(arguments.json);
  }
  std::vector<launch::HostSlots> hosts = hosts_of(arguments.where, 0);
  if (hosts.empty() || (hosts.size() == 1 && launch::is_this_host(hosts[0].name, host_name()))) {
    return doctor::examine_this_host(arguments.json);
  }
  return doctor::examine_hosts(job_on(arguments.where, std::move(hosts)), arguments.json);
}

}  // namespace

void add_doctor_command(CLI::App& app) {
  auto arguments = std::make_shared<DoctorArguments>();
  CLI::App* const command = app.add_subcommand("doctor", kAboutDoctor);
  command->formatter(std::make_shared<HelpFormatter>("doctor [-H HOST,...] [OPTIONS]"));
  command->footer(kDoctorFooter);
  add_host_options(*command, arguments->where);
  command->add_flag("--json", arguments->json, "one JSON object instead of lines");
  command->add_flag("--of-a-job", arguments->is_of_a_job, "what `ronde doctor -H` runs on each host")->group("");
  command->callback([arguments] { throw CLI::RuntimeError(examine(*arguments)); });
}

}  // namespace ronde::cli
