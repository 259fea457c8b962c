# Every third-party library: what for, which licence, why this one. Each is taken from the system if it is there
# (Debian: the package in brackets), else fetched at a pinned version and hash. libronde.so links them statically.
#
#   CLI11          BSD-3      command lines of `ronde`; header-only, subcommands, good --help   [libcli11-dev]
#   nlohmann/json  MIT        --json output and trace files; the most used, header-only         [nlohmann-json3-dev]
#   libsodium      ISC        keyed hash and constant-time compare for the job key; audited,
#                             small, no state                                                   [libsodium-dev]
#   OpenSSL        Apache-2   Poly1305 and ChaCha20 for RONDE_TCP_INTEGRITY=mac, three times as fast as
#                             libsodium's, which are taken where its static archive is not      [libssl-dev]
#   xxHash         BSD-2      checksums of what goes over TCP; at 64 bits the fastest that is well
#                             kept; header-only                                                 [libxxhash-dev]
#   GoogleTest     BSD-3      tests only; death tests, matchers, CTest discovery                [libgtest-dev libgmock-dev]
#   Benchmark      Apache-2   benchmarks/micro only                                             [libbenchmark-dev]
include(FetchContent)
set(FETCHCONTENT_QUIET ON)
find_package(Threads REQUIRED)

# Header-only libraries that the command line tool needs.
if(RONDE_CLI OR RONDE_TESTS)
  FetchContent_Declare(CLI11
    URL https://github.com/CLIUtils/CLI11/archive/refs/tags/v2.1.2.tar.gz
    URL_HASH SHA256=26291377e892ba0e5b4972cdfd4a2ab3bf53af8dac1f4ea8fe0d1376b625c8cb
    FIND_PACKAGE_ARGS NAMES CLI11)
  FetchContent_Declare(nlohmann_json
    URL https://github.com/nlohmann/json/archive/refs/tags/v3.11.2.tar.gz
    URL_HASH SHA256=d69f9deb6a75e2580465c6c4c5111b89c4dc2fa94e3a85fcd2ffcd9a143d9273
    FIND_PACKAGE_ARGS NAMES nlohmann_json)
  FetchContent_MakeAvailable(CLI11 nlohmann_json)
endif()

# xxHash: one header, compiled where it is used.
find_path(XXHASH_INCLUDE_DIR xxhash.h)
if(NOT XXHASH_INCLUDE_DIR)
  FetchContent_Declare(xxhash
    URL https://github.com/Cyan4973/xxHash/archive/refs/tags/v0.8.1.tar.gz
    URL_HASH SHA256=3bb6b7d6f30c591dd65aaaff1c8b7a5b94d81687998ca9400082c739a690436c)
  FetchContent_MakeAvailable(xxhash)  # it has no CMakeLists.txt beside its sources: nothing of it is built
  set(XXHASH_INCLUDE_DIR "${xxhash_SOURCE_DIR}")
endif()
add_library(ronde_xxhash INTERFACE IMPORTED)
target_include_directories(ronde_xxhash SYSTEM INTERFACE "${XXHASH_INCLUDE_DIR}")

if(RONDE_TESTS)
  FetchContent_Declare(GTest
    URL https://github.com/google/googletest/archive/refs/tags/release-1.12.1.tar.gz
    URL_HASH SHA256=81964fe578e9bd7c94dfdb09c8e4d6e6759e19967e397dbea48d1c10e45d0df2
    FIND_PACKAGE_ARGS NAMES GTest)
  FetchContent_MakeAvailable(GTest)
endif()

if(RONDE_BENCHMARKS)
  FetchContent_Declare(benchmark
    URL https://github.com/google/benchmark/archive/refs/tags/v1.7.1.tar.gz
    URL_HASH SHA256=6430e4092653380d9dc4ccb45a1e2dc9259d581f4866dc0759713126056bc1d7
    FIND_PACKAGE_ARGS NAMES benchmark)
  set(BENCHMARK_ENABLE_TESTING OFF CACHE BOOL "" FORCE)
  FetchContent_MakeAvailable(benchmark)
endif()

# libsodium: the static archive, so that libronde.so needs nothing at run time.
find_path(SODIUM_INCLUDE_DIR sodium.h)
find_library(SODIUM_STATIC_LIBRARY NAMES libsodium.a)
if(SODIUM_INCLUDE_DIR AND SODIUM_STATIC_LIBRARY)
  add_library(ronde_sodium STATIC IMPORTED)
  set_target_properties(ronde_sodium PROPERTIES
    IMPORTED_LOCATION "${SODIUM_STATIC_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${SODIUM_INCLUDE_DIR}")
else()
  include(ExternalProject)
  set(sodium_prefix "${PROJECT_BINARY_DIR}/sodium")
  ExternalProject_Add(sodium_build
    URL https://github.com/jedisct1/libsodium/releases/download/1.0.18-RELEASE/libsodium-1.0.18.tar.gz
        https://download.libsodium.org/libsodium/releases/libsodium-1.0.18.tar.gz
    URL_HASH SHA256=6f504490b342a4f8a4c4a02fc9b866cbef8622d5df4e5452b46be121e46636c1
    CONFIGURE_COMMAND <SOURCE_DIR>/configure --prefix=${sodium_prefix} --disable-shared --enable-static --with-pic
                      --quiet
    BUILD_COMMAND make -s
    INSTALL_COMMAND make -s install
    BUILD_BYPRODUCTS "${sodium_prefix}/lib/libsodium.a")
  file(MAKE_DIRECTORY "${sodium_prefix}/include")
  add_library(ronde_sodium STATIC IMPORTED)
  set_target_properties(ronde_sodium PROPERTIES
    IMPORTED_LOCATION "${sodium_prefix}/lib/libsodium.a"
    INTERFACE_INCLUDE_DIRECTORIES "${sodium_prefix}/include")
  add_dependencies(ronde_sodium sodium_build)
endif()

# OpenSSL: of its static archive two functions of assembler and what these need (src/transport/tcp/poly1305.h), which are in
# 1.1 and 3, if a shared library can hold them. It is never fetched: libsodium has them too.
add_library(ronde_openssl_primitives INTERFACE IMPORTED)
find_library(CRYPTO_STATIC_LIBRARY NAMES libcrypto.a)
if(CRYPTO_STATIC_LIBRARY)
  include(CheckSourceCompiles)
  set(CMAKE_REQUIRED_LIBRARIES "${CRYPTO_STATIC_LIBRARY}" ${CMAKE_DL_LIBS} Threads::Threads)
  set(CMAKE_REQUIRED_FLAGS -fPIC)
  set(CMAKE_REQUIRED_LINK_OPTIONS -shared -Wl,-z,defs)
  check_source_compiles(CXX "
    extern \"C\" {
    unsigned long Poly1305_ctx_size(void);
    void Poly1305_Init(void*, const unsigned char*);
    void Poly1305_Update(void*, const unsigned char*, unsigned long);
    void Poly1305_Final(void*, unsigned char*);
    void ChaCha20_ctr32(unsigned char*, const unsigned char*, unsigned long, const unsigned*, const unsigned*);
    }
    int main(int argc, char**) {
      static unsigned char state[512], bytes[64];
      static unsigned words[8];
      Poly1305_Init(state, bytes);
      Poly1305_Update(state, bytes, sizeof bytes);
      Poly1305_Final(state, bytes);
      ChaCha20_ctr32(bytes, bytes, sizeof bytes, words, words);
      return Poly1305_ctx_size() > sizeof state || argc > 9;
    }" RONDE_HAS_OPENSSL_PRIMITIVES)
  unset(CMAKE_REQUIRED_LIBRARIES)
  unset(CMAKE_REQUIRED_FLAGS)
  unset(CMAKE_REQUIRED_LINK_OPTIONS)
  if(RONDE_HAS_OPENSSL_PRIMITIVES)
    target_link_libraries(ronde_openssl_primitives INTERFACE "${CRYPTO_STATIC_LIBRARY}")
    target_compile_definitions(ronde_openssl_primitives INTERFACE RONDE_OPENSSL_PRIMITIVES)
  endif()
endif()
