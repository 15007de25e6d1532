/* Matrix products of the CPU backend, fp32 and fp64: C = A B, by blocks of C that tasks share out.
 *
 * The bits of an element of C depend on its row of A, its column of B and the cuts of k alone: each cut is one
 * chain of multiply-adds over ascending k that begins at zero, and the chains' ends are added to the element
 * one after the other. Neither the size of C, nor the element's place in it, nor the block it was computed in
 * matters, so rows and columns may be split in any way. */
#ifndef NEAP_KERNELS_CPU_GEMM_H
#define NEAP_KERNELS_CPU_GEMM_H

#include "kernels/cpu/cpu.h"

typedef struct neap_cpu_gemm {
  neap_dtype dtype;
  int64_t m, n, k;
  const void *a; /* A(i, k) = a[i * a_row + k * a_col]; strides in elements */
  int64_t a_row, a_col;
  const void *b; /* B(k, j) = b[k * b_row + j * b_col]; one of the two strides is 1 */
  int64_t b_row, b_col;
  void *c; /* C(i, j) = c[i * c_row + j] */
  int64_t c_row;
  const void *bias; /* [n], added to the first cut's sum; NULL: none */
  int64_t group;    /* a cut ends at every multiple of it (a slab's share of k); 0: none such */
  bool add;         /* C += A B; otherwise the first cut replaces what C held */
} neap_cpu_gemm;

/* How an m x n result is shared out: task t has block (t / across, t % across). */
typedef struct neap_cpu_blocks {
  int64_t rows, cols; /* of a block */
  uint32_t down, across;
  double seconds; /* predicted for the whole product on one thread */
} neap_cpu_blocks;

void NEAP_CPU_NAME(gemm_blocks)(neap_dtype dtype, int64_t m, int64_t n, int64_t k, neap_cpu_blocks *out);

/* Bytes of packing space a thread needs for blocks of `cols` columns. */
size_t NEAP_CPU_NAME(gemm_pack)(neap_dtype dtype, int64_t k, int64_t cols);

/* C[i0:i1, j0:j1]. pack: NEAP_ALIGN-aligned, of gemm_pack bytes for at least j1 - j0 columns. */
void NEAP_CPU_NAME(gemm_block)(const neap_cpu_gemm *g, int64_t i0, int64_t i1, int64_t j0, int64_t j1, void *pack);

/* Task `t` of blocks `b`. */
void NEAP_CPU_NAME(gemm_task)(const neap_cpu_gemm *g, const neap_cpu_blocks *b, uint32_t t, void *pack);

/* [begin, end) of the cut that begins at k: at most CUT products, none across a multiple of `group`. */
int64_t NEAP_CPU_NAME(gemm_cut_end)(int64_t begin, int64_t k, int64_t group);

#endif
