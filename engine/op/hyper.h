/* The settings of an optimizer's step: fp64[NEAP_HYPER] in device memory, so that a replayed program sees new values.
 * One layout for all steps, each of which reads what it needs. */
#ifndef NEAP_OP_HYPER_H
#define NEAP_OP_HYPER_H

enum {
  NEAP_H_LR = 0,  /* of this step: schedules and decays are in it */
  NEAP_H_SCALE,   /* gradients are multiplied by it first; below 0 where the value is to grow */
  NEAP_H_LIMIT,   /* then each element is held within plus or minus it, unless it is 0 */
  NEAP_H_L2,      /* weight decay that is added to the gradient, after that */
  NEAP_H_KEEP,    /* what decoupled weight decay leaves of a parameter: 1 - lr decay, 1 for none */
  NEAP_H_BETA1,   /* of the first moment, or momentum */
  NEAP_H_BETA2,   /* of the second; alpha, rho */
  NEAP_H_EPS,     /* added to roots */
  NEAP_H_BIAS1,   /* 1 - beta1^t */
  NEAP_H_BIAS2,   /* 1 - beta2^t */
  NEAP_H_FRESH,   /* SGD: what momentum takes of a gradient, 1 - dampening */
  NEAP_H_ALSO,    /* not 0: Nesterov's step, the greatest second moment (AMSGrad), centered squares */
  NEAP_H_ALONG_G, /* NAdam: the step along the gradient */
  NEAP_H_ALONG_M, /* NAdam: and along the first moment; RAdam: the rectification, 0 before there is one */
  NEAP_HYPER = 16
};

#endif
