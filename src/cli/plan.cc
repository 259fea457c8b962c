#include "cli/plan.h"

#include <CLI/CLI.hpp>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "cli/help/help.h"
#include "cli/measuring/report/format.h"
#include "cli/planning/plan_plot.h"
#include "cli/planning/plan_report.h"
#include "cli/planning/scenario.h"
#include "launch/ending.h"
#include "plan/fabric.h"
#include "plan/goal.h"

namespace ronde::cli {

namespace {

constexpr const char* kPlanAbout = "Says how long a training step takes on more hosts, and what it waits for there";

constexpr const char* kPlanFooter = R"(Examples:
  ronde plan --model resnet50                                   1 to 4096 hosts of one rank, by TCP at 10 Gbit/s
  ronde plan --model vgg16 --fabric tcp-25g --ranks-per-host 4 --plot vgg16.svg
  ronde plan --timeline trace.json --fabric my-network.json     a step that a job has recorded (RONDE_TIMELINE)
  ronde plan --model cosmogan --scaling strong --batch 64 --hosts 1,2,4,8,16,32,64
  ronde plan --bytes 64K,1M,16M --hosts 2,4,8 --set link_gbit=0.95
  ronde plan --model vgg16 --ranks-per-host 4 --chunk 16M       what larger messages would do
  ronde plan --model hepcnn --hosts 8 --goal hepcnn.goal        for LogGOPSim and ATLAHS

The step goes through the schedules that Ronde's ranks carry out, over links that cost what the fabric says (LogGOPS).
Buckets are averaged while the rest of the backward pass computes; a step ends when all is computed and averaged.

  waiting ms   what the step takes beyond computing
  efficiency   weak scaling (each rank keeps its samples): compute / step; strong (the batch is shared out): speed-up
               over one rank / ranks
  bound by     what makes the step longest: bytes on links, what each message costs, what each byte costs a processor,
               or nothing but computing

Exit codes: 0; 1 if a file cannot be written; 2 for wrong usage, or a file that cannot be understood.)";

struct PlanArguments {
  PlanWords words;
  std::string plot;
  std::string goal;
  bool json = false;
};

struct Failure {
  int code = 0;
  std::string sentence;
};

Failure write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  return file ? Failure{} : Failure{1, "cannot write '" + path + "': " + std::strerror(errno)};
}

void print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

Failure plan_calls(const PlanArguments& arguments, const Scenario& scenario) {
  if (!arguments.plot.empty() || !arguments.goal.empty()) {
    return {launch::kUsageExit, "--plot and --goal are of steps: give --model or --timeline in place of --bytes"};
  }
  std::vector<CallForecast> forecasts;
  for (const plan::Cluster& cluster : scenario.clusters) {
    for (const std::size_t bytes : scenario.sizes) {
      forecasts.push_back({cluster, bytes, call_ns(scenario, cluster, bytes)});
    }
  }
  print(arguments.json ? call_json(scenario, forecasts) : call_table(scenario, forecasts));
  return {};
}

Failure write_goal(const PlanArguments& arguments, const Scenario& scenario) {
  if (scenario.clusters.size() != 1) {
    return {launch::kUsageExit, "--goal: a GOAL file is of one cluster; give one number of --hosts"};
  }
  const plan::Cluster& cluster = scenario.clusters.front();
  Result<std::string> text = plan::goal_text(step_on(scenario, cluster), cluster, scenario.fabric);
  return text ? write_file(arguments.goal, *text) : Failure{launch::kUsageExit, "--goal: " + text.status().message()};
}

Failure plan_step(const PlanArguments& arguments, const Scenario& scenario) {
  if (!arguments.goal.empty()) {
    if (Failure failure = write_goal(arguments, scenario); failure.code != 0) {
      return failure;
    }
  }
  std::vector<plan::Forecast> forecasts;
  for (const plan::Cluster& cluster : scenario.clusters) {
    forecasts.push_back(plan::forecast(step_on(scenario, cluster), cluster, scenario.fabric));
  }
  if (!arguments.plot.empty()) {
    if (Failure failure = write_file(arguments.plot, efficiency_svg(scenario, forecasts)); failure.code != 0) {
      return failure;
    }
  }
  print(arguments.json ? step_json(scenario, forecasts) : step_table(scenario, forecasts));
  return {};
}

Failure make_plan(const PlanArguments& arguments) {
  Result<Scenario> scenario = understood(arguments.words);
  if (!scenario) {
    return {launch::kUsageExit, scenario.status().message()};
  }
  return scenario->sizes.empty() ? plan_step(arguments, *scenario) : plan_calls(arguments, *scenario);
}

/// The examples, the fabrics, the parameters that --set and a file know.
std::string footer() {
  std::string text = std::string(kPlanFooter) + "\n\nFabrics: " + plan::fabric_names() +
                     R"(, or a file such
as {"like": "tcp-10g", "latency_us": 25}. Ronde has no transport for RDMA yet. Parameters:
)";
  for (const plan::FabricParameter& each : plan::fabric_parameters()) {
    text += format("\n  %-18s  %s", each.name, each.meaning);
  }
  return text;
}

void add_plan_options(CLI::App& command, PlanArguments& arguments) {
  PlanWords& words = arguments.words;
  command.add_option("--model", words.model, "resnet50, inception3, resnet101, vgg16, hepcnn or cosmogan")
      ->type_name("NAME");
  command.add_option("--timeline", words.timeline, "a rank's timeline of some steps, in place of a model")
      ->type_name("FILE");
  command.add_option("--bytes", words.bytes, "sizes of single all-reduces, in place of a step: 64K,1M")
      ->type_name("SIZES");
  command.add_option("--fabric", words.fabric, "the network's name or file (tcp-10g)")->type_name("FABRIC");
  command.add_option("--set", words.set, "another value of one of its parameters; may be repeated")
      ->type_name("NAME=NUMBER");
  command.add_option("--hosts", words.hosts, "numbers of hosts (1,2,4,...,4096)")->type_name("LIST");
  command.add_option("--ranks-per-host", words.ranks_per_host, "ranks on each host (1)")->type_name("N");
  command.add_option("--scaling", words.scaling, "weak: every rank has --batch samples; strong: all have (weak)")
      ->type_name("weak|strong");
  command.add_option("--batch", words.batch, "samples of a model's step (64)")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 30));
  command.add_option("--step-ms", words.step_ms, "what the step computes, in place of what is known of it")
      ->type_name("MS")
      ->check(CLI::PositiveNumber);
  command.add_option("--samples-per-second", words.samples_per_second, "the same, as a rank's speed alone")
      ->type_name("RATE")
      ->check(CLI::PositiveNumber);
  command.add_option("--table", words.table, "what if: limits between hosts, a file or text as RONDE_TABLE takes it")
      ->type_name("TABLE");
  command.add_option("--one-shot", words.one_shot, "what if: up to this each sends everybody everything (32K)")
      ->type_name("SIZE");
  command
      .add_option("--chunk", words.chunk,
                  "what if: bytes of a message at most; of a slice at least, beyond 8 hosts (256K)")
      ->type_name("SIZE");
  command.add_flag("--json", arguments.json, "a JSON object a line instead of a table");
  command.add_option("--plot", arguments.plot, "writes a picture of the efficiency (SVG)")->type_name("FILE");
  command.add_option("--goal", arguments.goal, "writes what all ranks do as a GOAL schedule")->type_name("FILE");
}

}  // namespace

void add_plan_command(CLI::App& app) {
  auto arguments = std::make_shared<PlanArguments>();
  CLI::App* const command = app.add_subcommand("plan", kPlanAbout);
  command->formatter(std::make_shared<HelpFormatter>("plan --model NAME [OPTIONS]"));
  command->footer(footer());
  add_plan_options(*command, *arguments);
  command->callback([arguments] {
    if (const Failure failure = make_plan(*arguments); failure.code != 0) {
      std::fprintf(stderr, "ronde plan: %s\n", failure.sentence.c_str());
      throw CLI::RuntimeError(failure.code);
    }
  });
}

}  // namespace ronde::cli
