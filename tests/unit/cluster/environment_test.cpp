#include "cluster/environment.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace atoll::cluster {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Variables = std::map<std::string, std::string, std::less<>>;

Place place(const Variables& variables) {
  return place_from([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

std::string refusal(const Variables& variables) {
  try {
    const Place found = place(variables);
    return "found node " + std::to_string(found.node) + " of " + std::to_string(found.nodes);
  } catch (const Error& error) {
    return error.what();
  }
}

struct Case {
  const char* name;
  Variables variables;
  unsigned node, nodes;
  const char* source;
};

class Starters : public testing::TestWithParam<Case> {};

TEST_P(Starters, are_understood) {
  const Place found = place(GetParam().variables);
  EXPECT_EQ(found.node, GetParam().node);
  EXPECT_EQ(found.nodes, GetParam().nodes);
  EXPECT_THAT(found.source, HasSubstr(GetParam().source));
}

INSTANTIATE_TEST_SUITE_P(
    Environment, Starters,
    testing::Values(
        Case{"atoll", {{"ATOLL_NODE", "2"}, {"ATOLL_NODES", "3"}}, 2, 3, "ATOLL_NODE and ATOLL_NODES"},
        Case{"largest", {{"ATOLL_NODE", "1023"}, {"ATOLL_NODES", "1024"}}, 1023, 1024, "ATOLL_NODE"},
        Case{"slurm", {{"SLURM_PROCID", "3"}, {"SLURM_NTASKS", "8"}}, 3, 8, "Slurm (SLURM_PROCID, SLURM_NTASKS)"},
        Case{"open_mpi", {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}}, 0, 2, "Open MPI"},
        Case{"pmi", {{"PMI_RANK", "4"}, {"PMI_SIZE", "5"}}, 4, 5, "PMI (PMI_RANK, PMI_SIZE)"},
        // As Debian's mpirun does it.
        Case{"open_mpi_with_pmix",
             {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"PMIX_RANK", "1"}},
             1,
             2,
             "Open MPI"},
        // srun --mpi=pmix.
        Case{"slurm_with_pmix",
             {{"PMIX_RANK", "1"}, {"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}},
             1,
             2,
             "PMIx (PMIX_RANK, SLURM_NTASKS)"},
        Case{"pmix_and_how_many", {{"PMIX_RANK", "1"}, {"ATOLL_NODES", "4"}}, 1, 4, "PMIx (PMIX_RANK, ATOLL_NODES)"},
        // mpirun in a batch job: SLURM_PROCID is that of the script, or of mpirun's daemon.
        Case{"open_mpi_in_slurm",
             {{"OMPI_COMM_WORLD_RANK", "3"},
              {"OMPI_COMM_WORLD_SIZE", "4"},
              {"SLURM_PROCID", "0"},
              {"SLURM_NTASKS", "2"}},
             3,
             4,
             "Open MPI"},
        // atoll run in a batch job.
        Case{"atoll_in_slurm",
             {{"ATOLL_NODE", "1"}, {"ATOLL_NODES", "2"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "9"}},
             1,
             2,
             "ATOLL_NODE"},
        Case{"the_same_twice", {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"ATOLL_NODES", "2"}}, 1, 2, "PMI"}),
    [](const auto& each) { return std::string(each.param.name); });

TEST(Environment, says_what_it_looked_for) {
  EXPECT_THAT(refusal({}), AllOf(HasSubstr("ATOLL_NODE"), HasSubstr("SLURM_PROCID"), HasSubstr("OMPI_COMM_WORLD_RANK"),
                                 HasSubstr("PMI_RANK"), HasSubstr("PMIX_RANK"), HasSubstr("none of them is set")));
  EXPECT_THAT(refusal({{"ATOLL_NODES", "2"}}), HasSubstr("only ATOLL_NODES is set"));
}

TEST(Environment, half_of_it_is_not_enough) {
  EXPECT_THAT(refusal({{"ATOLL_NODE", "1"}}), HasSubstr("ATOLL_NODE=1 is set, but ATOLL_NODES is not"));
  EXPECT_THAT(refusal({{"PMIX_RANK", "1"}}), HasSubstr("PMIX_RANK=1 says which node this is (PMIx)"));
  EXPECT_THAT(refusal({{"SLURM_PROCID", "1"}}), HasSubstr("SLURM_PROCID=1 says which node"));
  // Another process's number of tasks is not ours.
  EXPECT_THAT(refusal({{"PMIX_RANK", "1"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}}), HasSubstr("of how many"));
}

TEST(Environment, contradictions_are_errors) {
  EXPECT_THAT(refusal({{"ATOLL_NODES", "3"}, {"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}}),
              HasSubstr("ATOLL_NODES=3, but SLURM_NTASKS=2"));
  EXPECT_THAT(refusal({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"PMIX_RANK", "0"}}),
              HasSubstr("OMPI_COMM_WORLD_RANK=1, but PMIX_RANK=0"));
  EXPECT_THAT(
      refusal({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"PMI_RANK", "1"}, {"PMI_SIZE", "3"}}),
      HasSubstr("OMPI_COMM_WORLD_SIZE=2, but PMI_SIZE=3"));
}

TEST(Environment, values_that_make_no_sense_are_named) {
  for (const char* bad : {"", "x", "-1", "1x", " 1", "0x1", "1024", "99999999999999999999"}) {
    EXPECT_THAT(refusal({{"ATOLL_NODE", bad}, {"ATOLL_NODES", "2"}}), HasSubstr("ATOLL_NODE=\"" + std::string(bad)));
    EXPECT_THAT(refusal({{"SLURM_PROCID", bad}, {"SLURM_NTASKS", "2"}}), HasSubstr("SLURM_PROCID=\""));
  }
  for (const char* bad : {"", "0", "1025", "many"}) {
    EXPECT_THAT(refusal({{"PMI_RANK", "0"}, {"PMI_SIZE", bad}}), HasSubstr("PMI_SIZE=\"" + std::string(bad)));
  }
  EXPECT_THAT(refusal({{"PMI_RANK", "2"}, {"PMI_SIZE", "2"}}), HasSubstr("node 2 of 2"));
  EXPECT_LT(refusal({{"PMI_RANK", std::string(100000, 'x')}}).size(), 300u);  // a bounded message
}

}  // namespace
}  // namespace atoll::cluster
