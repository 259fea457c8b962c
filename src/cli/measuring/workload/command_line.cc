#include "cli/measuring/workload/command_line.h"

#include <CLI/CLI.hpp>

#include "cli/measuring/workload/sizes.h"
#include "cli/measuring/workload/tensor_sets.h"

namespace ronde::cli {

namespace {

/// What is measured: the operation and its tensors.
void add_work_options(CLI::App& command, BenchWords& words) {
  command.add_option("operation", words.op, bench_op_choice())
      ->required()
      ->type_name("")
      ->check(CLI::IsMember(bench_op_names()));
  command.add_option("--bytes", words.bytes, "sizes to measure; K, M and G are 2^10, 2^20 and 2^30")
      ->type_name("LIST")
      ->capture_default_str();
  command
      .add_option(
          "--gradients", words.gradients,
          "in place of --bytes, a model's gradients as a backward pass has them ready: resnet50, vgg16, "
          "inception3, resnet101, hepcnn, cosmogan, or a file with one number of elements a line in the model's "
          "order")
      ->type_name("MODEL");
  command.add_option("--many", words.many, "in place of --bytes, so many tensors of so many bytes, such as 3000x1K")
      ->type_name("COUNTxBYTES");
  command
      .add_option(
          "--mode", words.mode,
          "how a set is handed over: async (all submitted, then all waited for), blocking (one after the other), "
          "flat (one buffer from the start), packed (copied into one and back, in the time)")
      ->type_name("MODE")
      ->check(CLI::IsMember({"async", "blocking", "flat", "packed"}))
      ->capture_default_str();
  command
      .add_option("--overlap", words.options.overlap_us,
                  "of a set: compute so many microseconds before each tensor, and report what communication adds")
      ->type_name("US")
      ->check(CLI::Range(0.0, 1e6));
  command.add_option("--dtype", words.options.dtype, "type of the elements")
      ->type_name("TYPE")
      ->check(CLI::IsMember(bench_dtype_names()))
      ->capture_default_str();
  command.add_flag("--in-place", words.options.in_place, "the output takes the input's place");
}

}  // namespace

void add_bench_options(CLI::App& command, BenchWords& words) {
  add_work_options(command, words);
  command
      .add_option("--form", words.form,
                  words.form.empty()
                      ? "how the call is made: by name, by a slot registered once, or as a persistent "
                        "plan (all-reduces without this option; others by name)"
                      : "how the call is made: by name, by a slot registered once, or as a persistent plan")
      ->type_name("FORM")
      ->check(CLI::IsMember({"name", "slot", "persistent"}))
      ->capture_default_str();
  command.add_flag("--shared", words.options.shared,
                   "the tensors lie in a bucket, memory that all ranks of the host map");
  command.add_option("--iterations", words.options.iterations, "timed calls for each size; fewer the larger it is")
      ->type_name("N")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 32));
  command.add_option("--seconds", words.options.seconds, "no further call of a size after so long")
      ->type_name("S")
      ->check(CLI::Range(0.0, 1e6));
  command.add_flag("--json", words.options.json, "one JSON object a line instead of the table");
  command.add_option("--plot", words.options.plot, "also draws time over size into this SVG file")->type_name("FILE");
  command.add_flag("--progress", words.options.progress)->group("");
}

BenchOptions understood(const BenchWords& words) {
  BenchOptions options = words.options;
  options.op = *parse_bench_op(words.op);
  options.form = words.form.empty() ? options.op == BenchOp::allreduce ? BenchForm::persistent : BenchForm::name
                                    : *parse_bench_form(words.form);
  options.mode = *parse_set_mode(words.mode);
  if (!words.gradients.empty() && !words.many.empty()) {
    throw CLI::ValidationError("--many", "there is one set of tensors: give --gradients or --many");
  }
  if (!words.many.empty() && !is_many(words.many)) {
    throw CLI::ValidationError("--many", "'" + words.many + "' is not COUNTxBYTES such as 3000x1K");
  }
  options.set = words.gradients + words.many;
  if (options.set.empty()) {
    const auto sizes = parse_sizes(words.bytes);
    if (!sizes) {
      throw CLI::ValidationError("--bytes", "'" + words.bytes + "' is no list of sizes such as 8,64K,1M");
    }
    options.bytes = *sizes;
  }
  if (const std::string wrong = check_options(options); !wrong.empty()) {
    throw CLI::ValidationError(words.op, wrong);
  }
  return options;
}

}  // namespace ronde::cli
