--- Losses as layers, with PyTorch's names and order of inputs (mostly prediction and target); options are those of
--- the ops, and weights among them become buffers.
local core = require "neap.core"
local check = require "neap.check"
local module = require "neap.nn.module"

local M = {}

local function check_reduction(what, r, batchmean)
  if r == nil or r == "mean" or r == "sum" or r == "none" or batchmean and r == "batchmean" then return end
  check.fail("INVALID", "%s: reduction is %q, expected %s\"mean\", \"sum\" or \"none\"", what, r,
             batchmean and "\"batchmean\", " or "")
end

--- What the op is called with: a weight that was left out before one that is there is 1.
local function with_inputs(self, names, ...)
  local list = {...}
  local n, last = select("#", ...), 0
  for i, name in ipairs(names or {}) do
    if self[name] then last = i end
  end
  for i = 1, last do list[n + i] = self[names[i]] or core.ones(1) end
  list[n + last + 1] = self.options
  return table.unpack(list, 1, n + last + 1)
end

--- A layer of a loss. `options`: names of the op's options beside reduction, and what they are. `inputs`: names of
--- options that are tensors, which the op takes behind the others and the layer keeps as buffers.
local function loss(name, op, options, inputs)
  local what, specs = "nn." .. name, {reduction = {kind = "string"}}
  for key, kind in pairs(options or {}) do specs[key] = {kind = kind} end
  for _, key in ipairs(inputs or {}) do specs[key] = {kind = "tensor"} end
  M[name] = module.module(name, {
    init = function(self, given)
      local o = check.options(what, given, specs)
      check_reduction(what, o.reduction, op == "kl_div")
      for _, key in ipairs(inputs or {}) do
        if o[key] then self[key] = module.buffer(o[key]) end
        o[key] = nil
      end
      self.options = o
    end,
    forward = function(self, ...) return core[op](with_inputs(self, inputs, ...)) end,
  }, true)
end

--- `neap.cross_entropy` as a layer: of scores [N, classes, ...] and class indices or the classes' probabilities.
--- Options: `weight` (a number for each class), `ignore_index`, `label_smoothing`, `reduction`.
---@param options? table
---@return neap.Module
loss("CrossEntropyLoss", "cross_entropy", {ignore_index = "integer", label_smoothing = "number"}, {"weight"})
--- `neap.nll_loss` as a layer: of log-probabilities [N, classes, ...] and class indices. Options: `weight` (a number
--- for each class), `ignore_index`, `reduction`.
---@param options? table
---@return neap.Module
loss("NLLLoss", "nll_loss", {ignore_index = "integer"}, {"weight"})
--- `neap.mse_loss` as a layer: of a prediction and a target of the same shape. Options: `reduction`.
---@param options? table
---@return neap.Module
loss("MSELoss", "mse_loss")
--- `neap.l1_loss` as a layer: of a prediction and a target of the same shape. Options: `reduction`.
---@param options? table
---@return neap.Module
loss("L1Loss", "l1_loss")
--- `neap.huber_loss` as a layer: of a prediction and a target of the same shape. Options: `delta`, `reduction`.
---@param options? table
---@return neap.Module
loss("HuberLoss", "huber_loss", {delta = "number"})
--- `neap.smooth_l1_loss` as a layer: of a prediction and a target of the same shape. Options: `beta`, `reduction`.
---@param options? table
---@return neap.Module
loss("SmoothL1Loss", "smooth_l1_loss", {beta = "number"})
--- `neap.binary_cross_entropy` as a layer: of probabilities and targets in [0, 1]. Options: `weight`, a tensor,
--- `reduction`.
---@param options? table
---@return neap.Module
loss("BCELoss", "binary_cross_entropy", nil, {"weight"})
--- `neap.binary_cross_entropy_with_logits` as a layer: of scores and targets in [0, 1]. Options: `pos_weight` and
--- `weight`, tensors, `reduction`.
---@param options? table
---@return neap.Module
loss("BCEWithLogitsLoss", "binary_cross_entropy_with_logits", nil, {"pos_weight", "weight"})
--- `neap.kl_div` as a layer: of log-probabilities and a target of the same shape. Options: `log_target`, `reduction`.
---@param options? table
---@return neap.Module
loss("KLDivLoss", "kl_div", {log_target = "boolean"})
--- `neap.poisson_nll_loss` as a layer: of a rate, or its logarithm, and counts. Options: `log_input`, `full`, `eps`,
--- `reduction`.
---@param options? table
---@return neap.Module
loss("PoissonNLLLoss", "poisson_nll_loss", {log_input = "boolean", full = "boolean", eps = "number"})
--- `neap.gaussian_nll_loss` as a layer: of means, targets and variances. Options: `full`, `eps`, `reduction`.
---@param options? table
---@return neap.Module
loss("GaussianNLLLoss", "gaussian_nll_loss", {full = "boolean", eps = "number"})
--- `neap.margin_ranking_loss` as a layer: of two scores and targets of 1 and -1. Options: `margin`, `reduction`.
---@param options? table
---@return neap.Module
loss("MarginRankingLoss", "margin_ranking_loss", {margin = "number"})
--- `neap.hinge_embedding_loss` as a layer: of distances and targets of 1 and -1. Options: `margin`, `reduction`.
---@param options? table
---@return neap.Module
loss("HingeEmbeddingLoss", "hinge_embedding_loss", {margin = "number"})
--- `neap.soft_margin_loss` as a layer: of scores and targets of 1 and -1. Options: `reduction`.
---@param options? table
---@return neap.Module
loss("SoftMarginLoss", "soft_margin_loss")
--- `neap.multilabel_soft_margin_loss` as a layer: of scores [N, classes] and targets of 0 and 1. Options: `weight`, a
--- tensor, `reduction`.
---@param options? table
---@return neap.Module
loss("MultiLabelSoftMarginLoss", "multilabel_soft_margin_loss", nil, {"weight"})
--- `neap.multi_margin_loss` as a layer: of scores [N, classes] and class indices. Options: `p`, `margin`, `weight`, a
--- tensor, `reduction`.
---@param options? table
---@return neap.Module
loss("MultiMarginLoss", "multi_margin_loss", {p = "integer", margin = "number"}, {"weight"})
--- `neap.cosine_embedding_loss` as a layer: of two tensors [N, width] and targets of 1 and -1. Options: `margin`,
--- `reduction`.
---@param options? table
---@return neap.Module
loss("CosineEmbeddingLoss", "cosine_embedding_loss", {margin = "number"})
--- `neap.triplet_margin_loss` as a layer: of anchors, positives and negatives [N, width]. Options: `margin`, `p`,
--- `eps`, `swap`, `reduction`.
---@param options? table
---@return neap.Module
loss("TripletMarginLoss", "triplet_margin_loss",
     {margin = "number", p = "number", eps = "number", swap = "boolean"})

return M
