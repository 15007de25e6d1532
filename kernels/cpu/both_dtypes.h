/* Includes LINES, the name of a file of code for one dtype, once for float and once for double. In it T is the dtype,
 * NAME(x) makes its names, and EXP_T and LOG_T are its functions. Has no include guard: it is used once a file. */
#include "kernels/cpu/vmath.h"

#define T float
#define NAME(x) x##_f32
#define EXP_T neap_expf
#define LOG_T neap_logf
#include LINES
#undef T
#undef NAME
#undef EXP_T
#undef LOG_T

#define T double
#define NAME(x) x##_f64
#define EXP_T exp
#define LOG_T log
#include LINES
#undef T
#undef NAME
#undef EXP_T
#undef LOG_T
#undef LINES
