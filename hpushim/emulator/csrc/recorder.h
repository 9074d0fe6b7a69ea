// The ledger's C++ side.
#pragma once

#include "graphs.h"

namespace hpu {

void mark_step();
void end_graph();
struct Causes {
  std::vector<Cause> kept;
  int64_t left_out;
};
Causes recompilation_causes();
void reset_books();
void record_graphs(bool on, bool lazy);
void watch_compute();          // count compute operators wherever they run
int64_t compute_elsewhere();   // those that did not run on hpu; -1 when not watched
extern std::atomic<bool> trace_on;

// sites.cpp
struct Site {
  std::string file;
  int line;
  std::string kind, what;
  int64_t count;
};
struct Sites {
  std::vector<Site> kept;
  int64_t left_out;  // events at further lines
};
Sites sites();
void reset_sites();
void set_library_roots(std::vector<std::string> roots);

}  // namespace hpu
