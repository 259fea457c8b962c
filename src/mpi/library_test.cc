#include "mpi/library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

namespace ronde::mpi {
namespace {

TEST(MpiLibrary, ItsInterfaceIsKnownByWhatItExportsItsFileAndItsVersion) {
  EXPECT_EQ(abi_of("/usr/lib/libmpi.so.40", "Open MPI v4.1.4", true).value(), Abi::open_mpi);
  EXPECT_EQ(abi_of("/opt/mpich/lib/libmpi.so.12", "MPICH Version:      4.0.2", false).value(), Abi::mpich);
  EXPECT_EQ(abi_of("/opt/intel/lib/libmpi.so.12", "Intel(R) MPI Library 2021.17 for Linux* OS", false).value(),
            Abi::mpich);
  EXPECT_EQ(abi_of("/opt/libmpi_abi/lib/libmpi.so.12", "MPICH Version: 5.0.2", false).value(), Abi::mpich);
  EXPECT_EQ(abi_of("/opt/mpich/lib/libmpi_abi.so.1", "MPICH Version: 5.0.2", false).value(), Abi::standard);
  EXPECT_EQ(abi_of("libmpi_abi.so.1", "any", false).value(), Abi::standard);
}

TEST(MpiLibrary, AFileThatIsNotThereIsToldFromOneThatIsNoMpi) {
  EXPECT_EQ(MpiLibrary::open("/nowhere/libmpi.so").status().code(), Code::invalid_argument);
  EXPECT_EQ(MpiLibrary::open("libc.so.6").status().code(), Code::not_implemented);
}

/// The environment for as long as it lives.
class LibraryFiles : public testing::Test {
 protected:
  LibraryFiles() { path_before_ = ::getenv("PATH"); }
  ~LibraryFiles() override {
    ::setenv("PATH", path_before_.c_str(), 1);
    ::unsetenv("RONDE_MPI_LIBRARY");
  }

 private:
  std::string path_before_;
};

TEST_F(LibraryFiles, AreBesideTheLaunchersOfPath) {
  std::string folder = testing::TempDir() + "mpi-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  ::setenv("PATH", folder.c_str(), 1);
  EXPECT_THAT(library_files(), testing::Not(testing::Contains(testing::StartsWith(folder))));
  std::ofstream(folder + "/mpirun") << "#!/bin/sh";
  ::chmod((folder + "/mpirun").c_str(), 0755);
  EXPECT_EQ(library_files().front(), folder + "/../lib/libmpi.so.40");
  EXPECT_THAT(library_files(), testing::IsSupersetOf({std::string("libmpi.so.40"), std::string("libmpich.so.12")}));
  ::setenv("RONDE_MPI_LIBRARY", "/mine.so", 1);
  EXPECT_THAT(library_files(), testing::ElementsAre("/mine.so"));
  std::filesystem::remove_all(folder);
}

TEST(MpiLibrary, OfNoKnownInterfaceIsRefused) {
  const Result<Abi> none = abi_of("/opt/other/libmpi.so.3", "Other MPI 1.0", false);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.status().code(), Code::not_implemented);
  EXPECT_THAT(none.status().message(), testing::HasSubstr("/opt/other/libmpi.so.3 (\"Other MPI 1.0\")"));
}

}  // namespace
}  // namespace ronde::mpi
