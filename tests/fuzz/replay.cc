// Runs a fuzz target without libFuzzer: replay [CORPUS [MUTATIONS [SEED]]] tries its seeds, the inputs in the file
// CORPUS, and so many mutations of these, which follow from SEED: with the same a fault comes again, in a debugger.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "fuzz/target.h"

namespace {

/// The inputs of a corpus, each behind its length, a u32 (tools/fuzz writes them).
std::vector<std::string> inputs_of(const char* path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<std::string> inputs;
  std::uint32_t length = 0;
  while (file.read(reinterpret_cast<char*>(&length), sizeof length)) {
    inputs.emplace_back(length, '\0');
    file.read(inputs.back().data(), length);
  }
  return inputs;
}

/// From an exact allocation, so that a sanitizer sees a read behind the end.
void run(const std::string& input) {
  std::vector<std::uint8_t> bytes(input.begin(), input.end());
  bytes.shrink_to_fit();
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

class Mutator {
 public:
  Mutator(std::vector<std::string> inputs, unsigned seed) : inputs_(std::move(inputs)), random_(seed) {}

  std::string next() {
    std::string input = pick();
    for (std::size_t times = 1 + below(4); times > 0; --times) {
      mutate(input);
    }
    return input;
  }

 private:
  std::size_t below(std::size_t end) { return end == 0 ? 0 : random_() % end; }
  const std::string& pick() { return inputs_[below(inputs_.size())]; }
  /// Numbers at which lengths and counts go wrong.
  std::uint64_t odd_number() {
    constexpr std::uint64_t kOdd[] = {0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff};
    return below(4) == 0 ? ~std::uint64_t{0} >> below(64) : kOdd[below(std::size(kOdd))];
  }
  void mutate(std::string& input) {
    const std::size_t at = below(input.size() + 1);
    switch (below(7)) {
      case 0: input.resize(at); break;
      case 1: input.insert(at, 1 + below(9), static_cast<char>(random_())); break;
      case 2: input.erase(at, 1 + below(9)); break;
      case 3:
        if (at < input.size()) {
          input[at] = static_cast<char>(input[at] ^ (1 << below(8)));
        }
        break;
      case 4: {
        const std::uint64_t number = odd_number();
        const std::size_t bytes = std::min<std::size_t>(std::size_t{1} << below(4), input.size() - at);
        std::memcpy(input.data() + at, &number, bytes);
        break;
      }
      case 5: input.insert(at, pick().substr(0, 1 + below(40))); break;
      default: {
        const std::string& other = pick();
        input = input.substr(0, at) + other.substr(below(other.size() + 1));
      }
    }
  }

  const std::vector<std::string> inputs_;
  std::minstd_rand random_;
};

}  // namespace

int main(int count, char** arguments) {
  std::vector<std::string> inputs = ronde::fuzz::seeds();
  if (count > 1) {
    const std::vector<std::string> kept = inputs_of(arguments[1]);
    inputs.insert(inputs.end(), kept.begin(), kept.end());
  }
  for (const std::string& input : inputs) {
    run(input);
  }
  const long mutations = count > 2 ? std::atol(arguments[2]) : 10'000;
  const unsigned seed = count > 3 ? static_cast<unsigned>(std::atol(arguments[3])) : 1;
  Mutator mutator(inputs, seed);
  for (long i = 0; i < mutations; ++i) {
    run(mutator.next());
  }
  std::printf("%zu inputs, %ld mutations of them, seed %u\n", inputs.size(), mutations, seed);
  return 0;
}
