// The C++ interface from an installed package: a sum over the ranks that every rank can check.
#include <cstdio>
#include <ronde/ronde.hpp>
#include <stdexcept>
#include <vector>

int main() {
  try {
    ronde::Session session;
    std::vector<float> values{1.0f, 2.0f};
    ronde::allreduce(std::span(values), {.name = "values", .op = ronde::Op::sum});
    // What a callback throws comes from another C++ run time than the library's own.
    std::vector<float> others{1.0f};
    ronde::allreduce_async(std::span(others),
                           {.name = "others",
                            .op = ronde::Op::sum,
                            .on_done = [](const ronde::Error*) { throw std::runtime_error("of a callback"); }})
        .wait();
    ronde::allreduce(std::span(others), {.name = "behind it"});
    const auto size = static_cast<float>(ronde::size());
    const bool right = values[0] == size && values[1] == 2 * size;
    std::printf("C++: rank %d of %d, sum %s\n", ronde::rank(), ronde::size(), right ? "right" : "wrong");
    return right ? 0 : 1;
  } catch (const ronde::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
