#include "graphs.h"

#include <cstring>
#include <sstream>

namespace hpu {

namespace {

// The word that opens a record.
struct Record {
  enum Kind : uint8_t { kTensor, kWhole, kReal };
  uint8_t kind = kTensor;
  bool contiguous = true;
  uint8_t dtype = 0;
  uint16_t length = 0;   // words that follow
  uint8_t argument = 0;  // kOutput: a result
  uint16_t element = 0;  // in a list
};
static_assert(sizeof(Record) <= 2 * sizeof(uint64_t));

constexpr uint8_t kOutput = 255;

uint64_t packed(const Record& r) {
  return static_cast<uint64_t>(r.kind) | static_cast<uint64_t>(r.contiguous) << 2 | static_cast<uint64_t>(r.dtype) << 3 |
         static_cast<uint64_t>(r.length) << 11 | static_cast<uint64_t>(r.argument) << 27 |
         static_cast<uint64_t>(r.element) << 35;
}

Record unpacked(uint64_t word) {
  Record r;
  r.kind = word & 3;
  r.contiguous = word >> 2 & 1;
  r.dtype = word >> 3 & 0xff;
  r.length = word >> 11 & 0xffff;
  r.argument = word >> 27 & 0xff;
  r.element = word >> 35 & 0xffff;
  return r;
}

uint64_t bits_of(double value) {
  uint64_t word;
  std::memcpy(&word, &value, sizeof word);
  return word;
}

std::string text_of(Record::Kind kind, uint64_t word) {
  if (kind != Record::kReal) return std::to_string(static_cast<int64_t>(word));
  double value;
  std::memcpy(&value, &word, sizeof value);
  std::ostringstream out;
  out << value;
  return out.str();
}

struct Part {  // one record of a step
  Record record;
  const uint64_t* words;

  std::string text() const {
    std::string out;
    for (size_t i = 0; i < record.length; ++i)
      out += (i ? "," : "") + text_of(static_cast<Record::Kind>(record.kind), words[i]);
    if (record.kind != Record::kTensor) return record.length == 1 ? out : "[" + out + "]";
    return std::string(c10::toString(static_cast<at::ScalarType>(record.dtype))) + "[" + out + "]";
  }
};

std::vector<Part> parts_of(const Outline& trail, size_t step) {
  const size_t to = step + 1 < trail.steps.size() ? trail.steps[step + 1].from : trail.shapes.size();
  std::vector<Part> out;
  for (size_t i = trail.steps[step].from; i < to;) {
    const Record record = unpacked(trail.shapes[i]);
    out.push_back({record, trail.shapes.data() + i + 1});
    i += 1 + record.length;
  }
  return out;
}

std::string text_of(const std::vector<Part>& parts) {
  std::string out;
  for (const Part& part : parts) out += (out.empty() ? "" : " ") + part.text();
  return out;
}

std::string name_of(const OperatorFacts& facts, const Record& record) {
  if (record.argument == kOutput) return "result";
  std::string name = record.argument < facts.names.size() ? facts.names[record.argument] : "?";
  const bool list = record.argument < facts.lists.size() && facts.lists[record.argument];
  return list ? name + "[" + std::to_string(record.element) + "]" : name;
}

void compare(const OperatorFacts& facts, const Part& before, const Part& after, std::vector<Difference>& found) {
  const auto kind = static_cast<Record::Kind>(after.record.kind);
  const std::string name = name_of(facts, after.record);
  const bool alike = before.record.kind == after.record.kind && before.record.length == after.record.length &&
                     before.record.dtype == after.record.dtype;
  if (!alike || (kind != Record::kTensor && after.record.length == 1)) {
    if (!alike || before.words[0] != after.words[0])
      found.push_back({kind == Record::kTensor ? Difference::kTensor : Difference::kNumber, name, std::nullopt,
                       before.text(), after.text()});
    return;
  }
  for (size_t d = 0; d < after.record.length; ++d)
    if (before.words[d] != after.words[d])
      found.push_back({kind == Record::kReal ? Difference::kNumber : Difference::kDimension, name,
                       static_cast<int64_t>(d), text_of(kind, before.words[d]), text_of(kind, after.words[d])});
  if (before.record.contiguous != after.record.contiguous)
    found.push_back({Difference::kLayout, name, std::nullopt, before.record.contiguous ? "contiguous" : "strided",
                     after.record.contiguous ? "contiguous" : "strided"});
}

}  // namespace

uint64_t mixed(uint64_t h, uint64_t word) {
  h ^= word + 0x9e3779b97f4a7c15ull + (h << 6) + (h >> 2);
  return h * 1099511628211ull;
}

uint64_t hash_of(const Words& words, uint64_t h) {
  for (uint64_t w : words) h = mixed(h, w);
  return h;
}

void Trail::clear() {
  structure.clear();
  shapes.clear();
  origins.clear();
  steps.clear();
}

void Trail::add_tensor(size_t argument, size_t element, const at::Tensor& tensor, uint64_t wire) {
  structure.push_back(wire);
  auto* impl = tensor.unsafeGetTensorImpl();
  const auto sizes = impl->sizes();
  Record record;
  record.contiguous = impl->is_contiguous();
  record.dtype = static_cast<uint8_t>(tensor.scalar_type());
  record.length = static_cast<uint16_t>(sizes.size());
  record.argument = static_cast<uint8_t>(argument);
  record.element = static_cast<uint16_t>(element);
  shapes.push_back(packed(record));
  for (int64_t s : sizes) shapes.push_back(static_cast<uint64_t>(s));
}

void Trail::add_output(const at::Tensor& tensor) {
  if (tensor.defined()) add_tensor(kOutput, 0, tensor, kOutput);
}

void Trail::add_value(size_t argument, Meaning meaning, const c10::IValue& value) {
  const bool choice = meaning == Meaning::kChoice;
  Record record;
  record.kind = Record::kWhole;
  record.argument = static_cast<uint8_t>(argument);
  auto add = [&](uint64_t word) { (choice ? structure : shapes).push_back(word); };
  auto open = [&](size_t length, Record::Kind kind) {
    record.length = static_cast<uint16_t>(std::min<size_t>(length, 0xffff));
    record.kind = kind;
    add(choice ? length + 16 : packed(record));
  };
  if (value.isInt()) {
    open(1, Record::kWhole);
    add(static_cast<uint64_t>(value.toInt()));
  } else if (value.isBool()) {
    structure.push_back(value.toBool() ? 5 : 4);
  } else if (value.isDouble()) {
    open(1, Record::kReal);
    add(bits_of(value.toDouble()));
  } else if (value.isString()) {
    structure.push_back(std::hash<std::string>()(value.toStringRef()));
  } else if (value.isIntList()) {
    const auto list = value.toIntVector();
    open(list.size(), Record::kWhole);
    for (size_t i = 0; i < std::min<size_t>(list.size(), 0xffff); ++i) add(static_cast<uint64_t>(list[i]));
  } else if (value.isDoubleList()) {
    const auto list = value.toDoubleVector();
    open(list.size(), Record::kReal);
    for (size_t i = 0; i < std::min<size_t>(list.size(), 0xffff); ++i) add(bits_of(list[i]));
  } else if (value.isList()) {
    structure.push_back(value.toListRef().size());
    for (const c10::IValue& item : value.toListRef()) add_value(argument, meaning, item);
  } else {
    structure.push_back(value.isNone() ? 6 : 7);
  }
}

bool Cause::is_of_number() const {
  if (differences.empty()) return false;
  for (const auto& d : differences)
    if (d.kind != Difference::kNumber) return false;
  return true;
}

bool Cause::is_like(const Cause& other) const {
  if (name != other.name || line != other.line || file != other.file || differences.size() != other.differences.size())
    return false;
  for (size_t i = 0; i < differences.size(); ++i) {
    const auto &a = differences[i], &b = other.differences[i];
    if (a.kind != b.kind || a.argument != b.argument || a.dimension != b.dimension) return false;
  }
  return true;
}

void Causes::keep(Cause cause) {
  constexpr size_t kMost = 2000;
  constexpr int kMostAlike = 4;
  Cause* alike = nullptr;
  int many = 0;
  for (auto& c : kept) {
    if (!c.is_like(cause)) continue;
    if (c.position == cause.position && c.before == cause.before && c.after == cause.after) {
      ++c.count;
      return;
    }
    if (alike == nullptr) alike = &c;
    ++many;
  }
  if (many >= kMostAlike)
    ++alike->others;
  else if (kept.size() < kMost)
    kept.push_back(std::move(cause));
  else
    ++left_out;
}

std::optional<Cause> difference(const Outline& before, const Outline& now) {
  const size_t n = std::min(now.steps.size(), before.steps.size());
  std::optional<Cause> of_number;
  for (size_t i = 0; i < n; ++i) {
    const auto was = parts_of(before, i);
    const auto is = parts_of(now, i);
    const OperatorFacts& facts = *now.steps[i].facts;
    Cause cause{facts.name, i, {}, {}, {}};
    for (size_t part = 0; part < std::min(was.size(), is.size()); ++part)
      compare(facts, was[part], is[part], cause.differences);
    if (cause.differences.empty() && was.size() == is.size()) continue;
    cause.before = text_of(was);
    cause.after = text_of(is);
    if (!cause.is_of_number()) return cause;
    if (!of_number) of_number = std::move(cause);
  }
  return of_number;
}

}  // namespace hpu
