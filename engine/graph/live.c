/* Live ranges, in-place, and offsets in the arena: every block gets a fixed place before anything runs. */
#include <stdlib.h>
#include <string.h>

#include "graph/plan.h"

typedef struct block {
  size_t bytes;
  uint32_t first, last;
  size_t *offset; /* where the answer goes */
} block;

static void touch(neap_program *p, uint32_t value, uint32_t step) {
  neap_pvalue *r = &p->values[neap__root(p, value)];
  if (step < r->first) r->first = step;
  if (step > r->last) r->last = step;
}

static void find_ranges(neap_program *p) {
  for (uint32_t k = 0; k < p->n_steps; k++) {
    const neap_step *s = &p->steps[k];
    for (uint32_t i = 0; i < s->n_in + s->n_out; i++)
      if (i >= s->n_in || !neap__shape_only(s->op, i)) touch(p, s->in[i], k);
  }
  for (uint32_t i = 0; i < p->n_results; i++)
    if (p->outputs[i].place != NEAP_PLACE_EXTERNAL) p->values[neap__root(p, p->output_values[i])].last = NEAP_FOREVER;
}

/* What a loop reads from before it must outlive its last turn; what it adds up must be there from its
 * first. */
static void stretch_over_loops(neap_program *p) {
  if (p->n_micro <= 1) return;
  for (uint32_t g = 0; g < p->n_segments; g++) {
    const neap_segment_range *seg = &p->segments[g];
    if (!seg->loop) continue;
    for (uint32_t v = 0; v < p->n_values; v++) {
      neap_pvalue *r = &p->values[v];
      if (r->root != v || r->first == NEAP_FOREVER) continue;
      bool before = r->first < seg->begin && r->last >= seg->begin;
      bool sum = r->batch.kind == NEAP_B_SUM && r->first >= seg->begin && r->first < seg->end;
      if (sum) r->first = seg->begin;
      if ((before || sum) && r->last < seg->end) r->last = seg->end - 1;
    }
  }
}

static uint32_t segment_begin(const neap_program *p, uint32_t step) {
  for (uint32_t g = 0; g < p->n_segments; g++)
    if (step < p->segments[g].end) return p->segments[g].begin;
  return 0;
}

static bool may_overwrite(neap_program *p, uint32_t k, uint32_t in, uint32_t out) {
  const neap_step *s = &p->steps[k];
  const neap_pvalue *a = &p->values[in], *b = &p->values[out];
  const neap_pvalue *r = &p->values[neap__root(p, in)];
  if (r->ref != NEAP_REF_ARENA || r->pinned || r->constant || r->last != k) return false;
  if (b->ref != NEAP_REF_ARENA || b->pinned || b->root != out || s->sums) return false;
  if (a->desc.dtype != b->desc.dtype || !neap__shape_equal(&a->desc.shape, &b->desc.shape)) return false;
  if (!neap__layout_same(&a->desc, a->layout, b->layout)) return false;
  /* A later turn of the loop would find an input from before it overwritten. */
  return p->n_micro <= 1 || r->first >= segment_begin(p, k);
}

static void place_inplace(neap_program *p) {
  for (uint32_t k = 0; k < p->n_steps; k++) {
    const neap_step *s = &p->steps[k];
    for (uint32_t i = 0; i < s->n_in && i < 8; i++) {
      if (!(s->op->inplace & (1u << i)) || !may_overwrite(p, k, s->in[i], s->out[0])) continue;
      uint32_t root = neap__root(p, s->in[i]);
      p->values[root].last = p->values[s->out[0]].last;
      p->values[s->out[0]].root = root;
      break;
    }
  }
}

static int larger_first(const void *a, const void *b) {
  const block *x = a, *y = b;
  if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
  return x->first < y->first ? -1 : x->first > y->first;
}

static int by_offset(const void *a, const void *b) {
  const block *x = *(const block *const *)a, *y = *(const block *const *)b;
  return *x->offset < *y->offset ? -1 : *x->offset > *y->offset;
}

/* Lowest gap that no block alive at the same time touches: greedy by size (Pisarchyk and Lee, "Efficient
 * memory management for deep neural net inference", 2020). */
static size_t lowest_gap(const block *b, block *const *sorted, uint32_t n) {
  size_t at = 0;
  for (uint32_t i = 0; i < n; i++) {
    const block *o = sorted[i];
    if (o->last < b->first || o->first > b->last) continue;
    if (*o->offset >= at + b->bytes) break;
    size_t end = *o->offset + o->bytes;
    if (end > at) at = end;
  }
  return at;
}

static size_t pack(block *blocks, uint32_t n, block **sorted) {
  qsort(blocks, n, sizeof *blocks, larger_first);
  size_t total = 0;
  for (uint32_t i = 0; i < n; i++) {
    block *b = &blocks[i];
    *b->offset = lowest_gap(b, sorted, i);
    if (*b->offset + b->bytes > total) total = *b->offset + b->bytes;
    uint32_t at = i;
    while (at > 0 && by_offset(&sorted[at - 1], &b) > 0) {
      sorted[at] = sorted[at - 1];
      at--;
    }
    sorted[at] = b;
  }
  return total;
}

static uint32_t gather(neap_program *p, block *blocks) {
  uint32_t n = 0;
  for (uint32_t v = 0; v < p->n_values; v++) {
    neap_pvalue *r = &p->values[v];
    if (r->root != v || r->ref != NEAP_REF_ARENA || r->constant || r->grad || r->first == NEAP_FOREVER) continue;
    size_t bytes = neap__align_up(neap__desc_bytes(&r->desc)) + NEAP_CANARY;
    if (neap__desc_bytes(&r->desc) == 0) continue;
    blocks[n++] = (block){bytes, r->first, r->last, &r->offset};
  }
  for (uint32_t k = 0; k < p->n_steps; k++) {
    neap_step *s = &p->steps[k];
    if (s->workspace) blocks[n++] = (block){neap__align_up(s->workspace) + NEAP_CANARY, k, k, &s->ws_offset};
    if (s->workspace > p->workspace_bytes) p->workspace_bytes = neap__align_up(s->workspace);
  }
  return n;
}

/* [gradients | constants | everything else] */
neap_status neap__plan_live(neap_program *p, neap_error *err) {
  block *blocks = neap__zone_alloc(&p->zone, (p->n_values + p->n_steps + 1) * sizeof *blocks);
  block **sorted = neap__zone_alloc(&p->zone, (p->n_values + p->n_steps + 1) * sizeof(block *));
  if (!blocks || !sorted) return neap__plan_nomem(err);
  find_ranges(p);
  stretch_over_loops(p);
  place_inplace(p);
  uint32_t n = gather(p, blocks);
  size_t packed = pack(blocks, n, sorted);
  size_t fixed = neap__align_up(p->grad_bytes) + p->const_offset;
  for (uint32_t i = 0; i < n; i++) *blocks[i].offset += fixed;
  for (uint32_t v = 0; v < p->n_values; v++)
    if (p->values[v].constant) p->values[v].offset += neap__align_up(p->grad_bytes);
  p->arena_bytes = fixed + packed;
  size_t rest = p->arena_bytes - neap__align_up(p->grad_bytes);
  p->activation_bytes = rest > p->workspace_bytes ? rest - p->workspace_bytes : 0;
  return NEAP_OK;
}
