#include "kernels/cpu/gemm.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* Most products in a chain: a panel of B and a row of tiles of A stay in the caches over a cut. Part of the
 * definition of the result, so the same for all. */
#define CUT 384

#if defined(__AVX512F__)
#define ROWS 14 /* 28 accumulators, 2 vectors of B and one of A in 32 registers */
#define RATE 8e10
#elif defined(__AVX2__) && defined(__FMA__)
#define ROWS 6 /* 12 accumulators of 16 registers */
#define RATE 4e10
#else
#define ROWS 6
#define RATE 8e9
#endif

int64_t NEAP_CPU_NAME(gemm_cut_end)(int64_t begin, int64_t k, int64_t group) {
  const int64_t first = group > 0 ? begin - begin % group : 0;
  const int64_t last = group > 0 && k - first > group ? first + group : k;
  const int64_t cuts = (last - first + CUT - 1) / CUT;
  const int64_t length = ((last - first + cuts - 1) / cuts + 7) & ~(int64_t)7; /* even, in eights */
  return last - begin > length ? begin + length : last;
}

/* --- fp32 ------------------------------------------------------------------------------------------------ */

#define T float
#define FN(name) name##_f32
#if defined(__AVX512F__)
#define VEC __m512
#define LANES 16
#define SET1(x) _mm512_set1_ps(x)
#define FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#elif defined(__AVX2__) && defined(__FMA__)
#define VEC __m256
#define LANES 8
#define SET1(x) _mm256_set1_ps(x)
#define FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#else
typedef float plain_f32 __attribute__((vector_size(16)));
#define VEC plain_f32
#define LANES 4
#define SET1(x) ((plain_f32){(x), (x), (x), (x)})
#define FMA(a, b, c) ((a) * (b) + (c))
#endif
#include "kernels/cpu/gemm_tile.h"

/* --- fp64 ------------------------------------------------------------------------------------------------ */

#define T double
#define FN(name) name##_f64
#if defined(__AVX512F__)
#define VEC __m512d
#define LANES 8
#define SET1(x) _mm512_set1_pd(x)
#define FMA(a, b, c) _mm512_fmadd_pd(a, b, c)
#elif defined(__AVX2__) && defined(__FMA__)
#define VEC __m256d
#define LANES 4
#define SET1(x) _mm256_set1_pd(x)
#define FMA(a, b, c) _mm256_fmadd_pd(a, b, c)
#else
typedef double plain_f64 __attribute__((vector_size(16)));
#define VEC plain_f64
#define LANES 2
#define SET1(x) ((plain_f64){(x), (x)})
#define FMA(a, b, c) ((a) * (b) + (c))
#endif
#include "kernels/cpu/gemm_tile.h"

/* --- sharing out ------------------------------------------------------------------------------------------ */

#define WIDEST 32   /* columns of the widest panel: blocks begin at its multiples */
#define FEW_ROWS 56 /* below this many rows, packing B costs more than a tenth of the products */
#define EVEN_TASKS 8
#define SHORTEST 1.5e-5
#define LONGEST 2.5e-4

static int64_t round_up(int64_t x, int64_t to) { return (x + to - 1) / to * to; }

void NEAP_CPU_NAME(gemm_blocks)(neap_dtype dtype, int64_t m, int64_t n, int64_t k, neap_cpu_blocks *out) {
  const double rate = dtype == NEAP_F64 ? RATE / 2 : RATE;
  const double product = (2.0 * (double)k + 4) / rate; /* seconds an element of C */
  double task;
  out->seconds = (double)m * (double)n * product;
  out->rows = m;
  out->cols = n;
  task = out->seconds / EVEN_TASKS;
  task = task < SHORTEST ? SHORTEST : task > LONGEST ? LONGEST : task;
  /* Columns are split first, since each block packs its own columns of B; rows once blocks are narrow. */
  while ((double)out->rows * (double)out->cols * product > task) {
    if (out->cols > WIDEST && (out->cols > 4 * WIDEST || out->rows <= 2 * FEW_ROWS))
      out->cols = round_up((out->cols + 1) / 2, WIDEST);
    else if (out->rows > FEW_ROWS)
      out->rows = round_up((out->rows + 1) / 2, ROWS);
    else
      break;
  }
  out->down = out->rows > 0 ? (uint32_t)((m + out->rows - 1) / out->rows) : 0;
  out->across = out->cols > 0 ? (uint32_t)((n + out->cols - 1) / out->cols) : 0;
}

size_t NEAP_CPU_NAME(gemm_pack)(neap_dtype dtype, int64_t k, int64_t cols) {
  const size_t depth = (size_t)(k < CUT ? k : CUT) + 8;
  const size_t elements = depth * ((size_t)cols + 2 * WIDEST + ROWS);
  return (elements * neap__dtype_size(dtype) + 63) & ~(size_t)63;
}

void NEAP_CPU_NAME(gemm_block)(const neap_cpu_gemm *g, int64_t i0, int64_t i1, int64_t j0, int64_t j1, void *pack) {
  if (i0 >= i1 || j0 >= j1) return;
  if (g->dtype == NEAP_F64)
    block_f64(g, i0, i1, j0, j1, pack);
  else
    block_f32(g, i0, i1, j0, j1, pack);
}

void NEAP_CPU_NAME(gemm_task)(const neap_cpu_gemm *g, const neap_cpu_blocks *b, uint32_t t, void *pack) {
  const int64_t i0 = (int64_t)(t / b->across) * b->rows, j0 = (int64_t)(t % b->across) * b->cols;
  const int64_t i1 = i0 + b->rows < g->m ? i0 + b->rows : g->m, j1 = j0 + b->cols < g->n ? j0 + b->cols : g->n;
  NEAP_CPU_NAME(gemm_block)(g, i0, i1, j0, j1, pack);
}
