// The graphs that a Gaudi would have compiled: what tells two of them apart, and what tells a place from another.
#pragma once

#include "operators.h"

#include <optional>
#include <unordered_map>

namespace hpu {

using Words = std::vector<uint64_t>;

// What two graphs of one structure can differ in.
struct Outline {
  struct Step {
    const OperatorFacts* facts;
    size_t from;  // its records begin here among the shapes
  };
  Words shapes;  // records: a word that says of what, and what follows of it (dimensions, a value)
  std::vector<Step> steps;
};

// What one graph is made of. Two graphs are one if `structure` and `shapes` are alike: they share a compiled recipe. They
// stand at the same place if `structure` and `origins` are: the same part of a program, whatever the shapes.
struct Trail : Outline {
  Words structure;  // operators, how they are wired, arguments that choose what an operator does
  Words origins;    // the sizes of parameters, and in eager mode what the inputs came from

  void clear();
  void add_tensor(size_t argument, size_t element, const at::Tensor& tensor, uint64_t wire);
  void add_value(size_t argument, Meaning meaning, const c10::IValue& value);
  void add_output(const at::Tensor& tensor);
};

// "mat1", dimension 0: 4, now 7. Without a dimension: a value, a dtype, the number of dimensions.
struct Difference {
  enum Kind : uint8_t { kDimension, kNumber, kTensor, kLayout } kind;  // kTensor: dtype, or how many dimensions
  std::string argument;
  std::optional<int64_t> dimension;
  std::string before, after;
};

struct Cause {
  std::string name;  // the first operator that differs from the graph compiled before at this place
  size_t position;
  std::string before, after;
  std::vector<Difference> differences;
  int64_t count = 1;
  int64_t others = 0;  // the same arguments and dimensions at this line, with further sizes
  std::string file = {};
  int line = 0;

  bool is_of_number() const;  // nothing but a number given to an operator is another
  bool is_like(const Cause& other) const;  // the same arguments and dimensions at the same line
};

// Why graphs were compiled again, in bounded memory: of one line, operator, argument and dimension a few, further ones
// are counted.
struct Causes {
  std::vector<Cause> kept;
  int64_t left_out = 0;
  void keep(Cause cause);
};

// The first operator in which two graphs of one structure differ, and how; nothing if none is found. One that differs in
// a shape comes before those that differ in a number alone.
std::optional<Cause> difference(const Outline& before, const Outline& now);

uint64_t mixed(uint64_t h, uint64_t word);
uint64_t hash_of(const Words& words, uint64_t h);

// A map that forgets what was not asked for longest, so that memory has a bound: two generations, each of which is
// dropped whole. `weight` is what entries count for.
template <class Value>
class Remembered {
 public:
  explicit Remembered(size_t most) : most_(most) {}
  Value* find(uint64_t key) {
    if (auto at = young_.find(key); at != young_.end()) return &at->second.value;
    const auto at = old_.find(key);
    if (at == old_.end()) return nullptr;
    Entry entry = std::move(at->second);
    old_.erase(at);
    return &put(key, std::move(entry));
  }
  Value& insert(uint64_t key, Value value, size_t weight = 1) { return put(key, Entry{std::move(value), weight}); }
  void clear() {
    young_.clear();
    old_.clear();
    weight_ = 0;
  }

 private:
  struct Entry {
    Value value;
    size_t weight;
  };
  Value& put(uint64_t key, Entry entry) {
    if (weight_ + entry.weight > most_ && !young_.empty()) {
      old_ = std::move(young_);
      young_.clear();
      weight_ = 0;
    }
    weight_ += entry.weight;
    return young_.insert_or_assign(key, std::move(entry)).first->second.value;
  }
  const size_t most_;
  size_t weight_ = 0;  // of the young
  std::unordered_map<uint64_t, Entry> young_, old_;
};

}  // namespace hpu
