#include "backend/mpi/mpi_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ronde::backend::mpi {
namespace {

TEST(MpiLibrary, ItsInterfaceIsKnownByWhatItExportsItsFileAndItsVersion) {
  EXPECT_EQ(abi_of("/usr/lib/libmpi.so.40", "Open MPI v4.1.4", true).value(), Abi::open_mpi);
  EXPECT_EQ(abi_of("/opt/mpich/lib/libmpi.so.12", "MPICH Version:      4.0.2", false).value(), Abi::mpich);
  EXPECT_EQ(abi_of("/opt/intel/lib/libmpi.so.12", "Intel(R) MPI Library 2021.17 for Linux* OS", false).value(), Abi::mpich);
  EXPECT_EQ(abi_of("/opt/libmpi_abi/lib/libmpi.so.12", "MPICH Version: 5.0.2", false).value(), Abi::mpich);
  EXPECT_EQ(abi_of("/opt/mpich/lib/libmpi_abi.so.1", "MPICH Version: 5.0.2", false).value(), Abi::standard);
  EXPECT_EQ(abi_of("libmpi_abi.so.1", "any", false).value(), Abi::standard);
}

TEST(MpiLibrary, OfNoKnownInterfaceIsRefused) {
  const Result<Abi> none = abi_of("/opt/other/libmpi.so.3", "Other MPI 1.0", false);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.status().code(), Code::not_implemented);
  EXPECT_THAT(none.status().message(), testing::HasSubstr("/opt/other/libmpi.so.3 (\"Other MPI 1.0\")"));
}

}  // namespace
}  // namespace ronde::backend::mpi
