/* Formulas of values of the graph `g`, as builders of gradients and composites write them. */
#ifndef NEAP_OP_FORMULA_H
#define NEAP_OP_FORMULA_H

#include "op/build.h"

#define ADD(a, b) neap__build2(g, &neap__op_add, a, b)
#define SUB(a, b) neap__build2(g, &neap__op_sub, a, b)
#define MUL(a, b) neap__build2(g, &neap__op_mul, a, b)
#define DIV(a, b) neap__build2(g, &neap__op_div, a, b)
#define NEG(a) neap__build1(g, &neap__op_neg, a)
#define EXP(a) neap__build1(g, &neap__op_exp, a)
#define LOG(a) neap__build1(g, &neap__op_log, a)
#define WHERE(condition, a, b) neap__build3(g, &neap__op_where, condition, a, b)
#define AT_LEAST(a, number) neap__with_number(g, &neap__op_clamp_min, a, number)

#endif
