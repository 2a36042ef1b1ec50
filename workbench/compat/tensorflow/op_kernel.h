// The part of TensorFlow's interface for ops that sources of ops are written against.
//
// It stands in front of such a source, in the place of its includes. What the source
// registers is described as JSON (`describe`), and run on arrays (`run`), by
// `op_library.py`.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace tensorflow {

typedef int8_t int8;
typedef int16_t int16;
typedef int32_t int32;
typedef int64_t int64;
typedef uint8_t uint8;
typedef uint16_t uint16;
typedef uint32_t uint32;
typedef uint64_t uint64;
using std::string;

// Errors

class Status {
 public:
  Status() {}
  explicit Status(const string &said) : failed_(true), said_(said) {}
  static Status OK() { return Status(); }
  bool ok() const { return !failed_; }
  const string &error_message() const { return said_; }
  const string &message() const { return said_; }
  string ToString() const { return ok() ? "OK" : said_; }

 private:
  bool failed_ = false;
  string said_;
};
inline Status OkStatus() { return Status(); }

namespace errors {
inline void Write(std::ostringstream &) {}
template <typename First, typename... Rest>
void Write(std::ostringstream &to, const First &first, const Rest &...rest) {
  to << first;
  Write(to, rest...);
}
template <typename... Parts>
Status Make(const Parts &...parts) {
  std::ostringstream to;
  Write(to, parts...);
  return Status(to.str());
}
#define WORKBENCH_ERROR(NAME) \
  template <typename... P> Status NAME(const P &...parts) { return Make(parts...); }
WORKBENCH_ERROR(InvalidArgument)
WORKBENCH_ERROR(FailedPrecondition)
WORKBENCH_ERROR(Internal)
WORKBENCH_ERROR(NotFound)
WORKBENCH_ERROR(OutOfRange)
WORKBENCH_ERROR(ResourceExhausted)
WORKBENCH_ERROR(Unimplemented)
WORKBENCH_ERROR(Unknown)
}  // namespace errors

#define OP_REQUIRES(CTX, CONDITION, STATUS) \
  do { if (!(CONDITION)) { (CTX)->SetStatus(STATUS); return; } } while (0)
#define OP_REQUIRES_OK(CTX, ...) \
  do { ::tensorflow::Status s_ = (__VA_ARGS__); \
       if (!s_.ok()) { (CTX)->SetStatus(s_); return; } } while (0)
#define TF_RETURN_IF_ERROR(...) \
  do { ::tensorflow::Status s_ = (__VA_ARGS__); if (!s_.ok()) return s_; } while (0)
#define TF_DISALLOW_COPY_AND_ASSIGN(T) T(const T &) = delete; void operator=(const T &) = delete

// Types, shapes, tensors

enum DataType { DT_INVALID = 0, DT_FLOAT, DT_DOUBLE, DT_INT32, DT_UINT8, DT_INT16,
                DT_INT8, DT_INT64 = 9, DT_BOOL = 10, DT_UINT16 = 17, DT_UINT32 = 22,
                DT_UINT64 = 23 };
template <typename T> struct DataTypeToEnum;
#define WORKBENCH_TYPE(T, NAME) \
  template <> struct DataTypeToEnum<T> { static constexpr DataType value = NAME; \
                                         static constexpr DataType v() { return NAME; } };
WORKBENCH_TYPE(float, DT_FLOAT)
WORKBENCH_TYPE(double, DT_DOUBLE)
WORKBENCH_TYPE(int32, DT_INT32)
WORKBENCH_TYPE(uint8, DT_UINT8)
WORKBENCH_TYPE(int16, DT_INT16)
WORKBENCH_TYPE(int8, DT_INT8)
WORKBENCH_TYPE(int64, DT_INT64)
WORKBENCH_TYPE(bool, DT_BOOL)
WORKBENCH_TYPE(uint16, DT_UINT16)
WORKBENCH_TYPE(uint32, DT_UINT32)
WORKBENCH_TYPE(uint64, DT_UINT64)
inline int DataTypeSize(DataType type) {
  switch (type) {
    case DT_DOUBLE: case DT_INT64: case DT_UINT64: return 8;
    case DT_FLOAT: case DT_INT32: case DT_UINT32: return 4;
    case DT_INT16: case DT_UINT16: return 2;
    default: return 1;
  }
}

class TensorShape {
 public:
  TensorShape() {}
  TensorShape(std::initializer_list<int64> dims) : dims_(dims) {}
  explicit TensorShape(const std::vector<int64> &dims) : dims_(dims) {}
  int dims() const { return (int)dims_.size(); }
  int64 dim_size(int i) const { return dims_.at(i); }
  std::vector<int64> dim_sizes() const { return dims_; }
  void AddDim(int64 n) { dims_.push_back(n); }
  void InsertDim(int at, int64 n) { dims_.insert(dims_.begin() + at, n); }
  void RemoveDim(int at) { dims_.erase(dims_.begin() + at); }
  void set_dim(int at, int64 n) { dims_.at(at) = n; }
  int64 num_elements() const {
    int64 n = 1;
    for (int64 d : dims_) n *= d;
    return n;
  }
  bool IsSameSize(const TensorShape &b) const { return dims_ == b.dims_; }
  bool operator==(const TensorShape &b) const { return dims_ == b.dims_; }
  bool operator!=(const TensorShape &b) const { return dims_ != b.dims_; }
  string DebugString() const {
    std::ostringstream to;
    for (size_t i = 0; i < dims_.size(); i++) to << (i ? "," : "[") << dims_[i];
    to << (dims_.empty() ? "[]" : "]");
    return to.str();
  }

 private:
  std::vector<int64> dims_;
};

struct TensorShapeUtils {
  static bool IsScalar(const TensorShape &s) { return s.dims() == 0; }
  static bool IsVector(const TensorShape &s) { return s.dims() == 1; }
  static bool IsMatrix(const TensorShape &s) { return s.dims() == 2; }
  template <typename N>
  static Status MakeShape(const N *dims, int64 n, TensorShape *out) {
    *out = TensorShape();
    for (int64 i = 0; i < n; i++) {
      if (dims[i] < 0) return errors::InvalidArgument("a length of ", dims[i]);
      out->AddDim(dims[i]);
    }
    return Status::OK();
  }
};

// Entries as an array of N axes; an index beyond its end is an error of the op.
template <typename T, int N>
class View {
 public:
  View(T *data, const std::vector<int64> &dims) : data_(data), dims_(dims) {}
  template <typename... Index>
  T &operator()(Index... index) const {
    static_assert(sizeof...(Index) == N, "as many indices as axes");
    const int64 given[N + 1] = {(int64)index..., 0};
    int64 at = 0;
    for (int i = 0; i < N; i++) {
      if (given[i] < 0 || given[i] >= dims_[i])
        throw std::out_of_range("an index is beyond the end of its axis");
      at = at * dims_[i] + given[i];
    }
    return data_[at];
  }
  int64 dimension(int i) const { return dims_[i]; }
  int64 size() const {
    int64 n = 1;
    for (int64 d : dims_) n *= d;
    return n;
  }
  T *data() const { return data_; }
  void setConstant(T value) { for (int64 i = 0; i < size(); i++) data_[i] = value; }
  void setZero() { setConstant(T(0)); }

 private:
  T *data_;
  std::vector<int64> dims_;
};
template <typename T, int N = 1> struct TTypes {
  typedef View<T, 1> Flat, Vec;
  typedef View<const T, 1> ConstFlat, ConstVec, UnalignedConstFlat;
  typedef View<T, 2> Matrix;
  typedef View<const T, 2> ConstMatrix;
  typedef View<T, 0> Scalar;
  typedef View<const T, 0> ConstScalar;
  typedef View<T, N> Tensor;
  typedef View<const T, N> ConstTensor;
};

class Tensor {
 public:
  Tensor() : Tensor(DT_FLOAT, TensorShape({0})) {}
  Tensor(DataType type, const TensorShape &shape)
      : type_(type), shape_(shape),
        owned_(std::make_shared<std::vector<char>>(shape.num_elements() * DataTypeSize(type))),
        data_(owned_->data()) {}
  Tensor(DataType type, const TensorShape &shape, const void *data)
      : type_(type), shape_(shape), data_(const_cast<void *>(data)) {}
  DataType dtype() const { return type_; }
  const TensorShape &shape() const { return shape_; }
  int dims() const { return shape_.dims(); }
  int64 dim_size(int i) const { return shape_.dim_size(i); }
  int64 NumElements() const { return shape_.num_elements(); }
  const void *raw() const { return data_; }
  template <typename T> View<T, 1> flat() { return {as<T>(), {NumElements()}}; }
  template <typename T> View<const T, 1> flat() const { return {as<T>(), {NumElements()}}; }
  template <typename T, int N> View<T, N> tensor() { return {as<T>(), axes(N)}; }
  template <typename T, int N> View<const T, N> tensor() const { return {as<T>(), axes(N)}; }
  template <typename T> View<T, 1> vec() { return tensor<T, 1>(); }
  template <typename T> View<const T, 1> vec() const { return tensor<T, 1>(); }
  template <typename T> View<T, 2> matrix() { return tensor<T, 2>(); }
  template <typename T> View<const T, 2> matrix() const { return tensor<T, 2>(); }
  template <typename T> View<T, 0> scalar() { return tensor<T, 0>(); }
  template <typename T> View<const T, 0> scalar() const { return tensor<T, 0>(); }

 private:
  template <typename T> T *as() const {
    if (DataTypeToEnum<T>::value != type_)
      throw std::invalid_argument("a tensor is read as of another type than it has");
    return static_cast<T *>(data_);
  }
  std::vector<int64> axes(int n) const {
    if (n != dims()) throw std::invalid_argument("a tensor is read with another number of axes than it has");
    return shape_.dim_sizes();
  }
  DataType type_;
  TensorShape shape_;
  std::shared_ptr<std::vector<char>> owned_;
  void *data_;
};

// Kernels

class OpKernelConstruction {
 public:
  std::map<string, string> settings;  // as text
  Status status;
  void SetStatus(const Status &s) { if (status.ok()) status = s; }
  void CtxFailure(const Status &s) { SetStatus(s); }
  bool HasAttr(const string &name) const { return settings.count(name) > 0; }
  template <typename T> Status GetAttr(const string &name, T *out) const {
    auto found = settings.find(name);
    if (found == settings.end()) return errors::NotFound("No attr named '", name, "'");
    return Read(found->second, out);
  }

 private:
  static Status Read(const string &text, string *out) { *out = text; return Status::OK(); }
  static Status Read(const string &text, bool *out) {
    *out = text == "true" || text == "True" || text == "1";
    return Status::OK();
  }
  template <typename T> static Status Read(const string &text, std::vector<T> *out) {
    std::istringstream from(text);
    string word;
    out->clear();
    while (from >> word) {
      T value{};
      Status status = Read(word, &value);
      if (!status.ok()) return status;
      out->push_back(value);
    }
    return Status::OK();
  }
  template <typename T> static Status Read(const string &text, T *out) {
    std::istringstream from(text);
    typename std::conditional<std::is_integral<T>::value, long long, double>::type value;
    from >> value;
    *out = (T)value;
    bool fits = !from.fail() && (!std::is_integral<T>::value || (long long)*out == (long long)value);
    return fits ? Status::OK()
                : errors::InvalidArgument("'", text, "' is no number of ", 8 * sizeof(T), " bits");
  }
};

class OpKernelContext {
 public:
  std::vector<Tensor> inputs;
  std::vector<DataType> types;  // of the outputs
  std::vector<std::unique_ptr<Tensor>> outputs;
  Status state;
  const Tensor &input(int i) const { return inputs.at(i); }
  int num_inputs() const { return (int)inputs.size(); }
  int num_outputs() const { return (int)types.size(); }
  Status allocate_output(int i, const TensorShape &shape, Tensor **out) {
    if (i < 0 || i >= num_outputs()) return errors::Internal("there is no output ", i);
    outputs.at(i).reset(new Tensor(types.at(i), shape));
    *out = outputs.at(i).get();
    return Status::OK();
  }
  Status allocate_temp(DataType type, const TensorShape &shape, Tensor *out) {
    *out = Tensor(type, shape);
    return Status::OK();
  }
  void set_output(int i, const Tensor &value) { outputs.at(i).reset(new Tensor(value)); }
  void SetStatus(const Status &s) { if (state.ok()) state = s; }
  void CtxFailure(const Status &s) { SetStatus(s); }
  const Status &status() const { return state; }
};

class OpKernel {
 public:
  explicit OpKernel(OpKernelConstruction *) {}
  virtual ~OpKernel() {}
  virtual void Compute(OpKernelContext *context) = 0;
};

// Shapes are found by running the kernel; what a source says of them is not called.
namespace shape_inference {
struct ShapeHandle {};
struct DimensionHandle {};
class InferenceContext {
 public:
  ShapeHandle input(int) { return {}; }
  void set_output(int, ShapeHandle) {}
  int num_inputs() const { return 0; }
  int Rank(ShapeHandle) { return 0; }
  DimensionHandle Dim(ShapeHandle, int) { return {}; }
  ShapeHandle Scalar() { return {}; }
  template <typename D> ShapeHandle Vector(D) { return {}; }
  template <typename R, typename C> ShapeHandle Matrix(R, C) { return {}; }
  ShapeHandle MakeShape(const std::vector<DimensionHandle> &) { return {}; }
  DimensionHandle MakeDim(int64) { return {}; }
  ShapeHandle UnknownShape() { return {}; }
  Status WithRank(ShapeHandle, int64, ShapeHandle *) { return Status::OK(); }
  Status WithRankAtLeast(ShapeHandle, int64, ShapeHandle *) { return Status::OK(); }
  template <typename T> Status GetAttr(const string &, T *) { return Status::OK(); }
};
inline Status UnchangedShape(InferenceContext *) { return Status::OK(); }
}  // namespace shape_inference

// What a source registers

class OpDef {
 public:
  string name;
  std::vector<string> inputs, outputs, attrs;
  explicit OpDef(const string &name) : name(name) {}
  OpDef &Input(const string &text) { inputs.push_back(text); return *this; }
  OpDef &Output(const string &text) { outputs.push_back(text); return *this; }
  OpDef &Attr(const string &text) { attrs.push_back(text); return *this; }
  OpDef &Doc(const string &) { return *this; }
  OpDef &SetIsStateful() { return *this; }
  OpDef &SetIsCommutative() { return *this; }
  OpDef &SetShapeFn(Status (*)(shape_inference::InferenceContext *)) { return *this; }
};

class Name {
 public:
  string op;
  std::map<string, DataType> types;
  explicit Name(const string &op) : op(op) {}
  Name &Device(const string &device) { cpu = device == "CPU"; return *this; }
  Name &HostMemory(const string &) { return *this; }
  template <typename T> Name &TypeConstraint(const string &letter) {
    types[letter] = DataTypeToEnum<T>::value;
    return *this;
  }
  bool cpu = true;
};
static const char *const DEVICE_CPU = "CPU";
static const char *const DEVICE_GPU = "GPU";

struct AttrValueWrapper {
  string text;
  AttrValueWrapper() {}
  AttrValueWrapper(const char *text) : text(Quote(text)) {}
  AttrValueWrapper(const string &text) : text(Quote(text)) {}
  AttrValueWrapper(bool value) : text(value ? "true" : "false") {}
  template <typename T> AttrValueWrapper(T value) {
    std::ostringstream to;
    to.precision(17);
    to << value;
    text = to.str();
  }
  static string Quote(const string &text) {
    string made = "\"";
    for (char c : text) {
      if (c == '"' || c == '\\') made += '\\';
      made += c;
    }
    return made + "\"";
  }
};

struct FunctionDef {
  string json;
};

class FunctionDefHelper {
 public:
  typedef AttrValueWrapper AttrValue;
  struct Node {
    std::vector<string> ret;
    string op;
    std::vector<string> arg;
    std::vector<std::pair<string, AttrValueWrapper>> attr;
    std::vector<string> dep;
  };
  static FunctionDef Define(const std::vector<string> &args,
                            const std::vector<string> &returns,
                            const std::vector<string> &attrs,
                            const std::vector<Node> &nodes) {
    std::ostringstream to;
    to << "{\"inputs\": " << List(args) << ", \"returns\": " << List(returns)
       << ", \"types\": " << List(attrs) << ", \"nodes\": [";
    for (size_t i = 0; i < nodes.size(); i++) {
      const Node &node = nodes[i];
      to << (i ? ", [" : "[") << List(node.ret) << ", " << AttrValueWrapper::Quote(node.op)
         << ", " << List(node.arg) << ", {";
      for (size_t j = 0; j < node.attr.size(); j++)
        to << (j ? ", " : "") << AttrValueWrapper::Quote(node.attr[j].first) << ": "
           << node.attr[j].second.text;
      to << "}]";
    }
    to << "]}";
    return {to.str()};
  }
  static string List(const std::vector<string> &texts) {
    string made = "[";
    for (size_t i = 0; i < texts.size(); i++)
      made += (i ? ", " : "") + AttrValueWrapper::Quote(texts[i]);
    return made + "]";
  }
};

struct AttrSlice {};

struct Kernel {
  Name key;
  std::function<OpKernel *(OpKernelConstruction *)> make;
};
typedef Status (*Creator)(const AttrSlice &, FunctionDef *);

struct Library {
  std::vector<std::unique_ptr<OpDef>> ops;
  std::vector<Kernel> kernels;
  std::vector<std::pair<string, Creator>> gradients;
  static Library &Get() {
    static Library library;
    return library;
  }
  static OpDef &AddOp(const string &name) {
    Get().ops.emplace_back(new OpDef(name));
    return *Get().ops.back();
  }
  template <typename K> static bool AddKernel(const Name &key) {
    if (key.cpu)
      Get().kernels.push_back({key, [](OpKernelConstruction *c) -> OpKernel * { return new K(c); }});
    return true;
  }
  static bool AddGradient(const string &op, Creator creator) {
    Get().gradients.emplace_back(op, creator);
    return true;
  }
};

#define WORKBENCH_JOIN_(A, B) A##B
#define WORKBENCH_JOIN(A, B) WORKBENCH_JOIN_(A, B)
#define REGISTER_OP(NAME) \
  static ::tensorflow::OpDef &WORKBENCH_JOIN(op_, __COUNTER__) = ::tensorflow::Library::AddOp(NAME)
#define REGISTER_KERNEL_BUILDER(KEY, ...) \
  static bool WORKBENCH_JOIN(kernel_, __COUNTER__) = \
      ::tensorflow::Library::AddKernel<__VA_ARGS__>(::tensorflow::KEY)
#define REGISTER_OP_GRADIENT(NAME, FUNCTION) \
  static bool WORKBENCH_JOIN(gradient_, __COUNTER__) = \
      ::tensorflow::Library::AddGradient(NAME, FUNCTION)
#define REGISTER_OP_NO_GRADIENT(NAME)

}  // namespace tensorflow

// What Python calls; all else is the own matter of each library.
#define WORKBENCH_CALLED \
  extern "C" inline __attribute__((used, visibility("default")))

namespace workbench {
using namespace tensorflow;

struct Run {
  OpKernelContext context;
  string said;
};

inline string Describe() {
  Library &library = Library::Get();
  std::ostringstream to;
  to << "{\"ops\": [";
  const char *comma = "";
  for (auto &op : library.ops) {
    to << comma << "{\"name\": " << AttrValueWrapper::Quote(op->name)
       << ", \"inputs\": " << FunctionDefHelper::List(op->inputs)
       << ", \"outputs\": " << FunctionDefHelper::List(op->outputs)
       << ", \"attrs\": " << FunctionDefHelper::List(op->attrs) << "}";
    comma = ", ";
  }
  to << "], \"gradients\": {";
  comma = "";
  for (auto &gradient : library.gradients) {
    FunctionDef made;
    Status status = gradient.second(AttrSlice(), &made);
    to << comma << AttrValueWrapper::Quote(gradient.first) << ": "
       << (status.ok() ? made.json : AttrValueWrapper::Quote(status.message()));
    comma = ", ";
  }
  to << "}}";
  return to.str();
}

// Kernels by op and settings: a kernel is made once.
inline OpKernel *FindKernel(const string &op, const string &settings, string *said) {
  static std::map<string, std::unique_ptr<OpKernel>> made;
  std::unique_ptr<OpKernel> &found = made[op + "\n" + settings];
  if (found) return found.get();
  OpKernelConstruction construction;
  std::istringstream from(settings);
  string line;
  while (std::getline(from, line)) {
    size_t at = line.find('=');
    construction.settings[line.substr(0, at)] = line.substr(at + 1);
  }
  for (const Kernel &kernel : Library::Get().kernels) {
    bool fits = kernel.key.op == op;
    for (auto &type : kernel.key.types)
      fits = fits && construction.settings[type.first] == std::to_string((int)type.second);
    if (!fits) continue;
    found.reset(kernel.make(&construction));
    if (construction.status.ok()) return found.get();
    *said = construction.status.message();
    found.reset();
    return nullptr;
  }
  *said = "no kernel of the op is registered for the CPU and these types";
  return nullptr;
}
}  // namespace workbench

WORKBENCH_CALLED const char *workbench_describe() noexcept {
  static std::string text;
  try {
    text = workbench::Describe();
  } catch (const std::exception &error) {
    text = std::string("!") + error.what();
  }
  return text.c_str();
}

WORKBENCH_CALLED void *workbench_run(
    const char *op, const char *settings, int inputs, const void *const *data,
    const int *types, const int *ranks, const int64_t *lengths, int outputs,
    const int *made) noexcept {
  workbench::Run *run = new workbench::Run();
  try {
    for (int i = 0; i < inputs; i++) {
      std::vector<int64_t> dims(lengths, lengths + ranks[i]);
      lengths += ranks[i];
      run->context.inputs.emplace_back(
          (tensorflow::DataType)types[i],
          tensorflow::TensorShape(std::vector<tensorflow::int64>(dims.begin(), dims.end())), data[i]);
    }
    for (int i = 0; i < outputs; i++)
      run->context.types.push_back((tensorflow::DataType)made[i]);
    run->context.outputs.resize(outputs);
    tensorflow::OpKernel *kernel = workbench::FindKernel(op, settings, &run->said);
    if (kernel != nullptr) {
      kernel->Compute(&run->context);
      if (!run->context.status().ok()) run->said = run->context.status().message();
      for (int i = 0; run->said.empty() && i < outputs; i++)
        if (!run->context.outputs[i])
          run->said = "the kernel has not allocated output " + std::to_string(i);
    }
  } catch (const std::exception &error) {
    run->said = error.what();
  } catch (...) {
    run->said = "the kernel has thrown something that is no std::exception";
  }
  std::cout.flush();
  return run;
}

WORKBENCH_CALLED const char *workbench_said(void *run) noexcept {
  return static_cast<workbench::Run *>(run)->said.c_str();
}
WORKBENCH_CALLED int workbench_rank(void *run, int i) noexcept {
  return static_cast<workbench::Run *>(run)->context.outputs[i]->dims();
}
WORKBENCH_CALLED int64_t workbench_length(void *run, int i, int axis) noexcept {
  return static_cast<workbench::Run *>(run)->context.outputs[i]->dim_size(axis);
}
WORKBENCH_CALLED const void *workbench_data(void *run, int i) noexcept {
  return static_cast<workbench::Run *>(run)->context.outputs[i]->raw();
}
WORKBENCH_CALLED void workbench_free(void *run) noexcept {
  delete static_cast<workbench::Run *>(run);
}
