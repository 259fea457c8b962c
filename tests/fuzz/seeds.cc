// With libFuzzer: writes the target's seeds into the folder RONDE_FUZZ_SEEDS, which is then given as a corpus
// (tools/fuzz).

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "fuzz/target.h"

/// Called before libFuzzer reads its folders.
extern "C" int LLVMFuzzerInitialize(int*, char***) {
  if (const char* folder = std::getenv("RONDE_FUZZ_SEEDS")) {
    std::filesystem::create_directories(folder);
    int number = 0;
    for (const std::string& seed : ronde::fuzz::seeds()) {
      const std::string name = "seed-" + std::to_string(number++);
      std::ofstream(std::filesystem::path(folder) / name, std::ios::binary) << seed;
    }
  }
  return 0;
}
