// What hpu does not have whatever the policy, and what only one process at a time may have.
#pragma once

#include <c10/core/Layout.h>
#include <torch/library.h>

#include <map>
#include <string>

namespace hpu {

// The findings' codes by subject ("layout", "quantised", "fork"), for the ends of messages. "generator" is among them
// where the release makes none.
void set_codes(std::map<std::string, std::string> codes);
std::string signed_by(const char* subject);  // "emulated HPU, HPU118"
[[noreturn]] void refuse_layout(c10::Layout layout, const char* where);
[[noreturn]] void refuse_quantised(const char* where);
void check_generator();  // raises where the release makes no generator on hpu
void register_refusals(torch::Library& aten);  // before the other kernels
void watch_forks();

}  // namespace hpu
