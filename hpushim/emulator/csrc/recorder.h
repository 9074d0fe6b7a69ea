// The ledger's C++ side.
#pragma once

#include "operators.h"

namespace hpu {

struct Cause {
  std::string name;  // the first operator whose tensors differ from the graph compiled before
  size_t position;
  std::string before, after;
  int64_t count;
};

void mark_step();
void end_graph();
std::vector<Cause> recompilation_causes();
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
std::vector<Site> sites();
void reset_sites();
void set_library_roots(std::vector<std::string> roots);

}  // namespace hpu
