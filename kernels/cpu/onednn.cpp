/* oneDNN behind a C interface. The library throws through its own C functions when memory is refused (and
 * what calls it from C is then ended by std::terminate), so every entry here is a try block and `noexcept`. */
#include "kernels/cpu/onednn.h"

#include <cstdlib>
#include <exception>
#include <memory>
#include <new>
#include <vector>

#include <dnnl.hpp>

#if DNNL_CPU_RUNTIME == DNNL_RUNTIME_OMP
extern "C" {
int omp_get_max_threads(void);
void omp_set_num_threads(int);
}
int neap__dnn_enter(void) {
  const int before = omp_get_max_threads();
  if (before != 1) omp_set_num_threads(1);
  return before;
}
void neap__dnn_leave(int before) {
  if (before != 1) omp_set_num_threads(before);
}
#else
int neap__dnn_enter(void) { return 1; }
void neap__dnn_leave(int) {}
#endif

using dnnl::memory;
using tag = memory::format_tag;
using dims = memory::dims;

/* Memory given back while primitives are made: an allocation of theirs that failed half-way would be an
 * untested path of the library, so the refusal is met here, before the call. */
static constexpr size_t reserve_bytes = size_t(4) << 20;

struct neap_dnn {
  dnnl::engine engine;
  void *reserve = nullptr;
  ~neap_dnn() { std::free(reserve); }
};

namespace {

struct single_thread {
  int before = neap__dnn_enter();
  single_thread() = default;
  single_thread(const single_thread &) = delete;
  single_thread &operator=(const single_thread &) = delete;
  ~single_thread() { neap__dnn_leave(before); }
};

class lend_reserve {
public:
  explicit lend_reserve(neap_dnn *d) : dnn(d) {
    if (!dnn->reserve) dnn->reserve = std::malloc(reserve_bytes);
    if (!dnn->reserve) throw std::bad_alloc();
    std::free(dnn->reserve);
    dnn->reserve = nullptr;
  }
  lend_reserve(const lend_reserve &) = delete;
  lend_reserve &operator=(const lend_reserve &) = delete;
  ~lend_reserve() { dnn->reserve = std::malloc(reserve_bytes); }

private:
  neap_dnn *dnn;
};

/* Call in a catch block. */
neap_status failure(const char *what, neap_error *err) {
  try {
    throw;
  } catch (const std::bad_alloc &) {
    return neap__fail(err, NEAP_NOMEM, "oneDNN found no memory for %s", what);
  } catch (const dnnl::error &e) {
    if (e.status == dnnl_out_of_memory) return neap__fail(err, NEAP_NOMEM, "oneDNN found no memory for %s", what);
    return neap__fail(err, NEAP_UNSUPPORTED, "oneDNN refused %s with status %d: %s", what, int(e.status), e.what());
  } catch (const std::exception &e) {
    return neap__fail(err, NEAP_INTERNAL, "oneDNN failed in %s: %s", what, e.what());
  } catch (...) {
    return neap__fail(err, NEAP_INTERNAL, "oneDNN failed in %s", what);
  }
}

neap_status status_of(dnnl_status_t s) {
  return s == dnnl_success ? NEAP_OK : s == dnnl_out_of_memory ? NEAP_NOMEM : NEAP_INTERNAL;
}

enum operand { X, W, B, Y, SCRATCH, OPERANDS };

/* A memory object and the address it was last told. */
struct place {
  memory object;
  void *at = nullptr;

  place(const memory::desc &d, const dnnl::engine &e) : object(d, e, nullptr) {}
  dnnl_status_t set(void *p) {
    if (p == at) return dnnl_success;
    at = p;
    return dnnl_memory_set_data_handle(object.get(), p);
  }
};

/* What one thread needs to execute: objects of its own, and the argument lists made from them. */
struct slot {
  dnnl::stream stream;
  std::vector<place> places;  /* by operand */
  std::vector<place> weights; /* plain, own order */
  std::vector<dnnl_exec_arg_t> args, reorder_args;
};

} // namespace

struct neap_dnn_conv {
  neap_dnn_kind kind = NEAP_DNN_FORWARD;
  dnnl::primitive run, reorder;
  memory::desc desc[OPERANDS], plain;
  bool ordered = false; /* the primitive's weights are plain */
  bool bias = false;
  size_t scratch = 0;
  std::vector<slot> slots;
};

namespace {

struct geometry {
  dims stride, dilation, padding, padding_end;
};

geometry geometry_of(const neap_dnn_shape &s) {
  const int64_t in[2] = {s.h, s.w}, out[2] = {s.oh, s.ow};
  geometry g;
  for (int i = 0; i < 2; i++) {
    const int64_t extent = (s.kernel[i] - 1) * s.dilation[i] + 1;
    g.stride.push_back(s.stride[i]);
    g.dilation.push_back(s.dilation[i] - 1); /* the library counts the gaps */
    g.padding.push_back(s.padding[i]);
    g.padding_end.push_back((out[i] - 1) * s.stride[i] + extent - in[i] - s.padding[i]);
  }
  return g;
}

dims weight_dims(const neap_dnn_shape &s) {
  if (s.groups == 1) return {s.o, s.c, s.kernel[0], s.kernel[1]};
  return {s.groups, s.o / s.groups, s.c / s.groups, s.kernel[0], s.kernel[1]};
}

constexpr auto f32 = memory::data_type::f32;
constexpr auto direct = dnnl::algorithm::convolution_direct;

struct descs {
  memory::desc x, w, b, y;
  dnnl::primitive_attr attr;
};

descs descs_of(const neap_dnn_shape &s) {
  descs d;
  d.x = memory::desc({s.n, s.c, s.h, s.w}, f32, tag::nhwc);
  d.w = memory::desc(weight_dims(s), f32, tag::any);
  if (s.bias) d.b = memory::desc({s.o}, f32, tag::x);
  d.y = memory::desc({s.n, s.o, s.oh, s.ow}, f32, tag::nhwc);
  d.attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return d;
}

using forward = dnnl::convolution_forward;
using grad_input = dnnl::convolution_backward_data;
using grad_weight = dnnl::convolution_backward_weights;
constexpr auto training = dnnl::prop_kind::forward_training;

#if DNNL_VERSION_MAJOR >= 3
forward::primitive_desc forward_desc(const dnnl::engine &e, const descs &d, const geometry &g) {
  return forward::primitive_desc(e, training, direct, d.x, d.w, d.b, d.y, g.stride, g.dilation, g.padding,
                                 g.padding_end, d.attr);
}
grad_input::primitive_desc grad_input_desc(const dnnl::engine &e, const descs &d, const geometry &g) {
  return grad_input::primitive_desc(e, direct, d.x, d.w, d.y, g.stride, g.dilation, g.padding, g.padding_end,
                                    forward_desc(e, d, g), d.attr);
}
grad_weight::primitive_desc grad_weight_desc(const dnnl::engine &e, const descs &d, const geometry &g) {
  return grad_weight::primitive_desc(e, direct, d.x, d.w, d.b, d.y, g.stride, g.dilation, g.padding, g.padding_end,
                                     forward_desc(e, d, g), d.attr);
}
#else
forward::primitive_desc forward_desc(const dnnl::engine &e, const descs &d, const geometry &g) {
  const forward::desc op(training, direct, d.x, d.w, d.b, d.y, g.stride, g.dilation, g.padding, g.padding_end);
  return forward::primitive_desc(op, d.attr, e);
}
grad_input::primitive_desc grad_input_desc(const dnnl::engine &e, const descs &d, const geometry &g) {
  const grad_input::desc op(direct, d.x, d.w, d.y, g.stride, g.dilation, g.padding, g.padding_end);
  return grad_input::primitive_desc(op, d.attr, e, forward_desc(e, d, g));
}
grad_weight::primitive_desc grad_weight_desc(const dnnl::engine &e, const descs &d, const geometry &g) {
  const grad_weight::desc op(direct, d.x, d.w, d.b, d.y, g.stride, g.dilation, g.padding, g.padding_end);
  return grad_weight::primitive_desc(op, d.attr, e, forward_desc(e, d, g));
}
#endif

template <typename PrimitiveDesc> void keep(neap_dnn_conv *c, const PrimitiveDesc &pd, const memory::desc &weights) {
  c->desc[W] = weights;
  c->desc[SCRATCH] = pd.scratchpad_desc();
  c->scratch = c->desc[SCRATCH].get_size();
}

void make_primitive(neap_dnn_conv *c, const dnnl::engine &e, const neap_dnn_shape &s, const neap_dnn_conv *like) {
  descs d = descs_of(s);
  const geometry g = geometry_of(s);
  if (like) d.w = like->desc[W];
  c->desc[X] = d.x;
  c->desc[B] = d.b;
  c->desc[Y] = d.y;
  if (s.kind == NEAP_DNN_FORWARD) {
    const auto pd = forward_desc(e, d, g);
    keep(c, pd, pd.weights_desc());
    c->run = forward(pd);
  } else if (s.kind == NEAP_DNN_GRAD_INPUT) {
    const auto pd = grad_input_desc(e, d, g);
    keep(c, pd, pd.weights_desc());
    c->run = grad_input(pd);
  } else {
    const auto pd = grad_weight_desc(e, d, g);
    keep(c, pd, pd.diff_weights_desc());
    c->run = grad_weight(pd);
  }
}

void make_reorder(neap_dnn_conv *c, const dnnl::engine &e, const neap_dnn_shape &s) {
  c->plain = memory::desc(weight_dims(s), f32, s.groups == 1 ? tag::oihw : tag::goihw);
  c->ordered = c->plain == c->desc[W];
  if (c->ordered) return;
  const bool back = s.kind == NEAP_DNN_GRAD_WEIGHT;
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const dnnl::reorder::primitive_desc pd(e, back ? c->desc[W] : c->plain, e, back ? c->plain : c->desc[W], attr);
  const size_t scratch = pd.scratchpad_desc().get_size();
  if (scratch > 0) throw dnnl::error(dnnl_unimplemented, "a reorder that needs scratch memory");
  c->reorder = dnnl::reorder(pd);
}

int argument(neap_dnn_kind kind, operand o) {
  const bool w = kind == NEAP_DNN_GRAD_WEIGHT, x = kind == NEAP_DNN_GRAD_INPUT;
  switch (o) {
    case X: return x ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC;
    case W: return w ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS;
    case B: return w ? DNNL_ARG_DIFF_BIAS : DNNL_ARG_BIAS;
    case Y: return kind == NEAP_DNN_FORWARD ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST;
    default: return DNNL_ARG_SCRATCHPAD;
  }
}

void make_slot(const neap_dnn_conv *c, const dnnl::engine &e, slot *s) {
  s->stream = dnnl::stream(e);
  for (int o = 0; o < OPERANDS; o++) s->places.emplace_back(c->desc[o], e);
  for (int o = 0; o < OPERANDS; o++)
    if ((o != B || c->bias) && (o != SCRATCH || c->scratch > 0))
      s->args.push_back({argument(c->kind, operand(o)), s->places[size_t(o)].object.get()});
  if (c->ordered) return;
  const bool back = c->kind == NEAP_DNN_GRAD_WEIGHT;
  s->weights.emplace_back(back ? c->desc[W] : c->plain, e);
  s->weights.emplace_back(back ? c->plain : c->desc[W], e);
  s->reorder_args.push_back({DNNL_ARG_FROM, s->weights[0].object.get()});
  s->reorder_args.push_back({DNNL_ARG_TO, s->weights[1].object.get()});
}

neap_status execute(const dnnl::primitive &p, const slot &s, const std::vector<dnnl_exec_arg_t> &args) {
  return status_of(dnnl_primitive_execute(p.get(), s.stream.get(), int(args.size()), args.data()));
}

} // namespace

neap_status neap__dnn_open(neap_dnn **out, neap_error *err) {
  *out = nullptr;
  try {
    const single_thread one;
    std::unique_ptr<neap_dnn> d(new neap_dnn);
    d->reserve = std::malloc(reserve_bytes);
    const lend_reserve lend(d.get());
    dnnl_set_verbose(0); /* an environment variable makes the library print */
    d->engine = dnnl::engine(dnnl::engine::kind::cpu, 0);
    *out = d.release();
    return NEAP_OK;
  } catch (...) {
    return failure("its engine", err);
  }
}

void neap__dnn_close(neap_dnn *d) {
  try {
    delete d;
  } catch (...) {
  }
}

#define TEXT2(x) #x
#define TEXT(x) TEXT2(x)
const char *neap__dnn_version(void) {
  return TEXT(DNNL_VERSION_MAJOR) "." TEXT(DNNL_VERSION_MINOR) "." TEXT(DNNL_VERSION_PATCH);
}

neap_status neap__dnn_conv_create(neap_dnn *d, const neap_dnn_shape *s, uint32_t width, const neap_dnn_conv *like,
                                  neap_dnn_conv **out, neap_error *err) {
  *out = nullptr;
  try {
    const single_thread one; /* the team size of now is the one the primitive divides its work by */
    const lend_reserve lend(d);
    std::unique_ptr<neap_dnn_conv> c(new neap_dnn_conv);
    c->kind = s->kind;
    c->bias = s->bias != 0;
    make_primitive(c.get(), d->engine, *s, like);
    make_reorder(c.get(), d->engine, *s);
    c->slots.resize(width);
    for (slot &each : c->slots) make_slot(c.get(), d->engine, &each);
    *out = c.release();
    return NEAP_OK;
  } catch (...) {
    return failure("a convolution", err);
  }
}

void neap__dnn_conv_destroy(neap_dnn_conv *c) {
  try {
    delete c;
  } catch (...) {
  }
}

size_t neap__dnn_conv_scratch(const neap_dnn_conv *c) { return c->scratch; }
size_t neap__dnn_conv_weights(const neap_dnn_conv *c) { return c->ordered ? 0 : c->desc[W].get_size(); }

neap_status neap__dnn_conv_reorder(const neap_dnn_conv *c, uint32_t thread, const void *from, void *to) {
  try {
    slot &s = const_cast<slot &>(c->slots[thread]); /* a thread's slot is its own */
    dnnl_status_t status = s.weights[0].set(const_cast<void *>(from));
    if (status == dnnl_success) status = s.weights[1].set(to);
    return status == dnnl_success ? execute(c->reorder, s, s.reorder_args) : status_of(status);
  } catch (...) {
    return failure("a reorder", nullptr);
  }
}

neap_status neap__dnn_conv_run(const neap_dnn_conv *c, uint32_t thread, void *x, void *w, void *b, void *y,
                               void *scratch) {
  try {
    slot &s = const_cast<slot &>(c->slots[thread]);
    void *const at[OPERANDS] = {x, w, b, y, scratch};
    for (int o = 0; o < OPERANDS; o++) {
      if ((o == B && !c->bias) || (o == SCRATCH && c->scratch == 0)) continue;
      const dnnl_status_t status = s.places[size_t(o)].set(at[o]);
      if (status != dnnl_success) return status_of(status);
    }
    return execute(c->run, s, s.args);
  } catch (...) {
    return failure("a convolution", nullptr);
  }
}
