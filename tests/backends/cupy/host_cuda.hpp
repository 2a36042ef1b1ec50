// Runs CUDA C++ kernels on the host, for their arithmetic and their synchronisation, not for speed.
//   g++ -std=c++17 -O1 -g -ffp-contract=off -shared -fPIC -include host_cuda.hpp kernels.cu   (-x c++)
// A block's threads are fibers on one OS thread; they change places at __syncthreads, __syncwarp and
// shuffles, in ascending, descending or random order. Shared memory starts as NaN in each block.
// After the kernels, one HOST_CUDA_KERNEL(name) for each exports name_launch and name_signature.
#pragma once
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <type_traits>
#include <utility>
#if defined(__SANITIZE_ADDRESS__)
#define HOST_CUDA_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HOST_CUDA_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define __SANITIZE_THREAD__ 1
#endif
#endif
#ifdef HOST_CUDA_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif
#if !defined(__x86_64__) && !defined(HOST_CUDA_UCONTEXT)
#define HOST_CUDA_UCONTEXT
#endif
#ifdef HOST_CUDA_UCONTEXT
#include <ucontext.h>
#endif

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(n) alignas(n)
#if defined(HOST_CUDA_ASAN) || defined(HOST_CUDA_PLAIN_SHARED)
#define __shared__ static  // so that the sanitizer puts red zones around it
#else                      // one section, so that a block can start from NaN
#define __shared__ static __attribute__((section("host_shared")))
extern char __start_host_shared[] __attribute__((weak, visibility("hidden")));
extern char __stop_host_shared[] __attribute__((weak, visibility("hidden")));
#endif

struct uint3 { unsigned x, y, z; };
struct dim3 { unsigned x = 1, y = 1, z = 1; };
static uint3 threadIdx, blockIdx;
static dim3 blockDim, gridDim;
static const int warpSize = 32;

namespace host_cuda {
enum State : char { ready, at_warp, at_block, done };
const unsigned most = 1024;
const size_t stack_bytes = 256 << 10;  // sanitizers need frames of that size
struct Fiber { void* sp = 0; char* stack = 0; void* tsan = 0; };
static Fiber fibers[most], *of[most], *spare[most];
static State state[most];
static unsigned mask_of[most], group[most], current, threads, made, spares;
static unsigned char slot[most][16], seen[most][16];
static void *scheduler, *tsan_scheduler, **arguments, (*invoke)(void**);
static char message[256], dynamic_shared[64 << 10] __attribute__((aligned(128)));
static bool failed;
static size_t dynamic_bytes;
static int barrier, warp_barrier[most / 32], start_edge, end_edge;
static const void* scheduler_stack; static size_t scheduler_size;

#ifndef HOST_CUDA_UCONTEXT
extern "C" __attribute__((visibility("hidden"))) void host_cuda_switch(void** save, void* load);
asm(R"(.text
.p2align 4
.hidden host_cuda_switch
.globl host_cuda_switch
.type host_cuda_switch,@function
host_cuda_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");
#else  // ucontext makes two system calls a switch
static void host_cuda_switch(void** save, void* load) {
  ucontext_t here, *to = (ucontext_t*)load;
  *save = &here;
  swapcontext(&here, to);
}
#endif

static void enter(Fiber& f, void** save) {  // from the scheduler into a fiber
  void* sp = f.sp;  // what is read after the switch looks like the fiber's
#ifdef __SANITIZE_THREAD__
  __tsan_switch_to_fiber(f.tsan, 1);  // 1: the switch itself orders nothing
#endif
#ifdef HOST_CUDA_ASAN
  void* fake; __sanitizer_start_switch_fiber(&fake, f.stack, stack_bytes);
  host_cuda_switch(save, sp);
  __sanitizer_finish_switch_fiber(fake, 0, 0);
#else
  host_cuda_switch(save, sp);
#endif
}
static void leave(Fiber& f) {  // and back
#ifdef __SANITIZE_THREAD__
  __tsan_switch_to_fiber(tsan_scheduler, 1);
#endif
#ifdef HOST_CUDA_ASAN
  void* fake; __sanitizer_start_switch_fiber(&fake, scheduler_stack, scheduler_size);
  host_cuda_switch(&f.sp, scheduler);
  __sanitizer_finish_switch_fiber(fake, &scheduler_stack, &scheduler_size);
#else
  host_cuda_switch(&f.sp, scheduler);
#endif
}
static void order_before(void* p) {
#ifdef __SANITIZE_THREAD__
  __tsan_release(p);
#endif
}
static void order_after(void* p) {
#ifdef __SANITIZE_THREAD__
  __tsan_acquire(p);
#endif
}
static void main_of_fiber() {
#ifdef HOST_CUDA_ASAN
  __sanitizer_finish_switch_fiber(0, &scheduler_stack, &scheduler_size);
#endif
  for (;;) {
    order_after(&start_edge);
    invoke(arguments);
    order_before(&end_edge);
    state[current] = done;
    leave(*of[current]);
  }
}
static void fresh(Fiber& f) {
  if (!f.stack) {
    f.stack = (char*)mmap(0, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    mprotect(f.stack, 4096, PROT_NONE);
#ifdef __SANITIZE_THREAD__
    f.tsan = __tsan_create_fiber(0);
#endif
  }
#ifdef HOST_CUDA_ASAN
  __asan_unpoison_memory_region(f.stack, stack_bytes);
#endif
#ifndef HOST_CUDA_UCONTEXT
  void** top = (void**)(f.stack + stack_bytes - 64 - (&f - fibers) % 32 * 320);  // not all in one cache set
  *--top = 0;                     // where main_of_fiber would return to; also aligns its frame
  *--top = (void*)main_of_fiber;
  f.sp = top - 6;                 // six registers
#else
  static ucontext_t contexts[most];
  ucontext_t* c = &contexts[&f - fibers];
  getcontext(c); c->uc_stack.ss_sp = f.stack; c->uc_stack.ss_size = stack_bytes; c->uc_link = 0;
  makecontext(c, main_of_fiber, 0);
  f.sp = c;
#endif
}
static void wait(State s) { state[current] = s; leave(*of[current]); }
template <class... A> void fail(const char* format, A... a) {
  if (!failed) {
    int n = snprintf(message, sizeof message, "block (%u,%u,%u) thread (%u,%u,%u): ", blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z);
    snprintf(message + n, sizeof message - n, format, a...);
  }
  failed = true;
}
static void resume(unsigned t) {
  current = t;
  threadIdx = {t % blockDim.x, t / blockDim.x % blockDim.y, t / (blockDim.x * blockDim.y)};
  if (!of[t]) {
#ifdef __SANITIZE_THREAD__
    of[t] = &fibers[t];  // a fiber for each thread, or their accesses would look ordered
    if (!fibers[t].stack) fresh(fibers[t]);
#else
    if (!spares) { fresh(fibers[made]); spare[spares++] = &fibers[made++]; }
    of[t] = spare[--spares];
#endif
  }
  enter(*of[t], &scheduler);
  if (state[t] == done) {
#ifndef __SANITIZE_THREAD__
    spare[spares++] = of[t];
#endif
    of[t] = 0;
  }
}
static uint64_t seed;
static unsigned draw(unsigned n) { seed = seed * 6364136223846793005u + 1442695040888963407u; return (seed >> 33) % n; }
static void arrange(unsigned* p, unsigned first, unsigned n, unsigned order) {
  for (unsigned i = 0; i < n; i++) p[i] = first + (order == 1 ? n - 1 - i : i);
  if (order > 1) for (unsigned i = n; i > 1; i--) { unsigned j = draw(i), k = p[i - 1]; p[i - 1] = p[j]; p[j] = k; }
}
static bool release_warp(unsigned first, unsigned lanes) {  // true: some lanes go on
  unsigned live = 0, waits = 0, moved = 0;
  for (unsigned j = 0; j < lanes; j++) {
    live |= (state[first + j] != done) << j;
    waits |= (state[first + j] == at_warp) << j;
  }
  for (unsigned left = waits; left;) {
    unsigned mask = mask_of[first + __builtin_ctz(left)], here = 0;
    for (unsigned j = 0; j < lanes; j++) here |= unsigned(left >> j & 1 && mask_of[first + j] == mask) << j;
    left &= ~here;
    if (mask & live & ~here) continue;
    for (unsigned j = 0; j < lanes; j++) if (here >> j & 1) {
      memcpy(seen[first + j], slot[first + j], 16); group[first + j] = here; state[first + j] = ready;
    }
    moved |= here;
  }
  if (waits && !moved) fail("lanes %08x of a warp wait for lanes of their mask that do not come", waits);
  return moved;
}
static void run_block(unsigned order) {
  unsigned warps = (threads + 31) / 32, w[most / 32], l[32];
#if !defined(HOST_CUDA_ASAN) && !defined(HOST_CUDA_PLAIN_SHARED)
  if (__start_host_shared) memset(__start_host_shared, 0xff, __stop_host_shared - __start_host_shared);
#endif
  memset(dynamic_shared, 0xff, dynamic_bytes);
  memset(state, ready, threads);
  order_before(&start_edge);
  for (bool waiting = true; waiting && !failed;) {
    arrange(w, 0, warps, order);
    for (unsigned i = 0; i < warps && !failed; i++) {
      unsigned first = w[i] * 32, lanes = threads - first < 32 ? threads - first : 32;
      do {
        arrange(l, first, lanes, order);
        for (unsigned j = 0; j < lanes && !failed; j++) if (state[l[j]] == ready) resume(l[j]);
      } while (!failed && release_warp(first, lanes));
    }
    waiting = false;
    for (unsigned t = 0; t < threads; t++) if (state[t] == at_block) { state[t] = ready; waiting = true; }
  }
  order_after(&end_edge);
}
static const char* run(const unsigned* shape, size_t shared_bytes, unsigned order, void** args, void (*f)(void**)) {
  gridDim = {shape[0], shape[1], shape[2]}; blockDim = {shape[3], shape[4], shape[5]};
  threads = blockDim.x * blockDim.y * blockDim.z;
  if (!threads || threads > most || blockDim.z > 64 || !gridDim.x || !gridDim.y || !gridDim.z || gridDim.x > 2147483647u || gridDim.y > 65535 || gridDim.z > 65535)
    return "CUDA refuses this launch: grid or block out of range";
  if (shared_bytes > sizeof dynamic_shared) return "more shared memory than the host keeps";
  dynamic_bytes = shared_bytes; failed = false; seed = order; invoke = f; arguments = args;
#ifdef __SANITIZE_THREAD__
  tsan_scheduler = __tsan_get_current_fiber();
#endif
  uint64_t blocks = (uint64_t)gridDim.x * gridDim.y * gridDim.z;
  for (uint64_t i = 0; i < blocks && !failed; i++) {
    uint64_t b = order == 1 ? blocks - 1 - i : i;
    blockIdx = {unsigned(b % gridDim.x), unsigned(b / gridDim.x % gridDim.y), unsigned(b / gridDim.x / gridDim.y)};
    run_block(order);
  }
  if (!failed) return 0;
  for (unsigned t = 0; t < most; t++) of[t] = 0;  // give up the fibers in flight
  for (spares = 0; spares < made; spares++) { fresh(fibers[spares]); spare[spares] = &fibers[spares]; }
  return message;
}
template <class T> constexpr char code() {
  using U = std::remove_cv_t<T>;
  if (std::is_same_v<U, float>) return 'f';
  if (std::is_same_v<U, double>) return 'd';
  if (std::is_same_v<U, bool>) return '?';
  if (std::is_integral_v<U>) return std::is_signed_v<U> ? "?bh?i???q"[sizeof(U)] : "?BH?I???Q"[sizeof(U)];
  return 'V';
}
template <class... A, size_t... I> const char* signature(void (*)(A...), std::index_sequence<I...>) {
  static char text[2 * sizeof...(A) + 1];  // two letters a parameter: P or blank, then NumPy's letter
  ((text[2 * I] = std::is_pointer_v<A> ? 'P' : ' ', text[2 * I + 1] = code<std::remove_pointer_t<A>>()), ...);
  return text;
}
template <auto K, class... A, size_t... I> void call(void** args, void (*)(A...), std::index_sequence<I...>) { K(*(A*)args[I]...); }
template <auto K, class... A> void call(void** args, void (*f)(A...)) { call<K>(args, f, std::index_sequence_for<A...>{}); }
template <class... A> const char* signature(void (*f)(A...)) { return signature(f, std::index_sequence_for<A...>{}); }
template <class T> T exchange(unsigned mask, T value, unsigned from) {
  static_assert(sizeof(T) <= 16);
  unsigned lane = current % 32;
  if (!(mask >> lane & 1)) { fail("shuffle mask %08x leaves out its own lane %u", mask, lane); wait(ready); }
  memcpy(slot[current], &value, sizeof value);
  mask_of[current] = mask;
  order_before(&warp_barrier[current / 32]);
  wait(at_warp);
  order_after(&warp_barrier[current / 32]);
  if (!(group[current] >> from & 1)) { fail("shuffle reads lane %u, which takes no part", from); wait(ready); }
  memcpy(&value, seen[current - lane + from], sizeof value);
  return value;
}
struct Atomic { void* p; Atomic(void* p) : p(p) { order_after(p); } ~Atomic() { order_before(p); } };
}  // namespace host_cuda

#define HOST_CUDA_KERNEL(k)                                                                             \
  extern "C" const char* k##_signature() { return host_cuda::signature(&k); }                           \
  extern "C" const char* k##_launch(const unsigned* shape, size_t shared, unsigned order, void** args) { \
    return host_cuda::run(shape, shared, order, args, [](void** a) { host_cuda::call<&k>(a, &k); });    \
  }

static inline void __syncthreads() {
  host_cuda::order_before(&host_cuda::barrier);
  host_cuda::wait(host_cuda::at_block);
  host_cuda::order_after(&host_cuda::barrier);
}
static inline unsigned __activemask() { return 1u << host_cuda::current % 32; }  // what CUDA may give too
static inline void __syncwarp(unsigned m = ~0u) { host_cuda::exchange(m, 0, host_cuda::current % 32); }
static inline void __threadfence() {}
static inline void __threadfence_block() {}
template <class T> T __shfl_sync(unsigned m, T v, int from, int width = 32) {
  int lane = host_cuda::current % 32;
  return host_cuda::exchange(m, v, (lane & -width) | (from & (width - 1)));
}
template <class T> T __shfl_down_sync(unsigned m, T v, unsigned d, int width = 32) {
  int lane = host_cuda::current % 32, from = lane + d;
  return host_cuda::exchange(m, v, from > (lane | (width - 1)) ? lane : from);
}
template <class T> T __shfl_up_sync(unsigned m, T v, unsigned d, int width = 32) {
  int lane = host_cuda::current % 32, from = lane - d;
  return host_cuda::exchange(m, v, from < (lane & -width) ? lane : from);
}
template <class T> T __shfl_xor_sync(unsigned m, T v, int x, int width = 32) {
  int lane = host_cuda::current % 32, from = lane ^ x;
  return host_cuda::exchange(m, v, from > (lane | (width - 1)) ? lane : from);
}
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline unsigned __ballot_sync(unsigned m, int p) {
  unsigned v = 0;
  for (int i = 0; i < 32; i++) if (m >> i & 1) v |= (unsigned)(host_cuda::exchange(m, p, i) != 0) << i;
  return v;
}
template <class T, class U> T atomicAdd(T* p, U v) { host_cuda::Atomic a(p); T old = *p; *p = old + (T)v; return old; }
template <class T, class U> T atomicMax(T* p, U v) { host_cuda::Atomic a(p); T old = *p; if ((T)v > old) *p = v; return old; }
template <class T, class U> T atomicMin(T* p, U v) { host_cuda::Atomic a(p); T old = *p; if ((T)v < old) *p = v; return old; }
template <class T, class U> T atomicExch(T* p, U v) { host_cuda::Atomic a(p); T old = *p; *p = v; return old; }
template <class T> T atomicCAS(T* p, T expected, T v) { host_cuda::Atomic a(p); T old = *p; if (old == expected) *p = v; return old; }
template <class T> T __ldg(const T* p) { return *p; }
static inline long long __double_as_longlong(double x) { long long r; memcpy(&r, &x, 8); return r; }
static inline double __longlong_as_double(long long x) { double r; memcpy(&r, &x, 8); return r; }
static inline float __int_as_float(int x) { float r; memcpy(&r, &x, 4); return r; }
static inline int __float_as_int(float x) { int r; memcpy(&r, &x, 4); return r; }
#undef INFINITY  // NVRTC has neither
#undef NAN
static inline double rsqrt(double x) { return 1 / sqrt(x); }
static inline float rsqrt(float x) { return 1 / sqrtf(x); }
static inline float rsqrtf(float x) { return 1 / sqrtf(x); }
static inline void sincos(float x, float* s, float* c) { sincosf(x, s, c); }
template <class T, class U> std::common_type_t<T, U> min(T a, U b) { return b < a ? b : a; }
template <class T, class U> std::common_type_t<T, U> max(T a, U b) { return a < b ? b : a; }
#define HOST_CUDA_VECTOR(T, name, align)                                             \
  struct __align__(2 * align) name##2 { T x, y; };                                   \
  struct name##3 { T x, y, z; };                                                     \
  struct __align__(4 * align > 16 ? 16 : 4 * align) name##4 { T x, y, z, w; };       \
  static inline name##2 make_##name##2(T x, T y) { return {x, y}; }                  \
  static inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
HOST_CUDA_VECTOR(float, float, 4)
HOST_CUDA_VECTOR(double, double, 8)
HOST_CUDA_VECTOR(int, int, 4)

// What the prelude of kernels says in the assembler of a GPU: float16 as bits.
static inline float half_value(unsigned short h) {
  unsigned sign = (h & 0x8000u) << 16, exponent = h >> 10 & 31, digits = h & 1023;
  if (exponent == 31) return __int_as_float(sign | 0x7f800000u | digits << 13);
  float x = exponent ? ldexpf((float)(1024 + digits), (int)exponent - 25) : ldexpf((float)digits, -24);
  return sign ? -x : x;
}
static inline unsigned short half_bits_of_double(double x) {
  unsigned short sign = signbit(x) ? 0x8000 : 0;
  double a = fabs(x);
  if (x != x) return sign | 0x7e00;
  if (a >= 65520) return sign | 0x7c00;
  int e = a < 6.103515625e-05 ? -14 : ilogb(a);
  return sign | (unsigned short)(rint(ldexp(a, 10 - e)) + ((e + 14) << 10));  // a carry moves to the exponent
}
static inline unsigned short half_bits(float x) { return half_bits_of_double(x); }
static inline float round_half_of_double(double x) { return half_value(half_bits_of_double(x)); }
