--- Layers over sequences: embeddings and attention.
local core = require "neap.core"
local check = require "neap.check"
local module = require "neap.nn.module"
local layers = require "neap.nn.layers"

local M = {}

local function size(what, name, v)
  return check.value(what, name, v, {kind = "integer", min = 1})
end

---@class neap.nn.EmbeddingOptions
---@field init? any as in `nn.parameter` (default "normal")

--- A row of the weight for each index: [...] of `int64`, which counts from 0, becomes [..., width]. Parameter `weight`
--- [count, width].
---@param count integer rows
---@param width integer
---@param options? neap.nn.EmbeddingOptions
---@return neap.Module
M.Embedding = module.module("Embedding", {
  init = function(self, count, width, options)
    size("nn.Embedding", "count", count)
    size("nn.Embedding", "width", width)
    local o = check.options("nn.Embedding", options, {init = {kind = "any", default = "normal"}})
    self.weight = module.parameter {shape = {count, width}, init = o.init}
  end,
  forward = function(self, x) return core.embedding(x, self.weight) end,
}, true)

--- Third i of the stacked projection of x: (batch, length, width) -> (batch, heads, length, width / heads)
local function project(self, i, x)
  local d, qkv = self.width, self.qkv
  local weight = qkv.weight:narrow(1, (i - 1) * d + 1, d)
  local y
  if qkv.bias then
    y = core.linear(x, weight, qkv.bias:narrow(1, (i - 1) * d + 1, d))
  else
    y = core.linear(x, weight)
  end
  y = y:reshape {x.shape[1], x.shape[2], self.heads, d // self.heads}
  return y:permute {dims = {1, 3, 2, 4}}
end

local function check_sequence(what, x, width)
  if x.ndim ~= 3 or x.shape[3] ~= width then
    check.fail("SHAPE", "nn.MultiheadAttention: %s is %s, expected (batch, length, %d)", what,
               check.shape_text(x.shape), width)
  end
end

---@class neap.nn.AttentionOptions
---@field bias? boolean of the projections (default true)
---@field is_causal? boolean a position sees itself and those before it (default false)

--- Scaled dot-product attention in several heads (Vaswani et al. 2017): `attention(x[, context[, mask]])` with x
--- [N, length, width] gives the same shape. Keys and values come from the context [N, other length, width] if there is
--- one; the mask is as `neap.scaled_dot_product_attention` has it. Memory grows with the length, not its square.
--- Children `qkv`, a `Linear(width, 3 width)` with the three projections one below the other, and `proj`, a
--- `Linear(width, width)`.
---@param width integer
---@param heads integer a divisor of the width
---@param options? neap.nn.AttentionOptions
---@return neap.Module
M.MultiheadAttention = module.module("MultiheadAttention", {
  init = function(self, width, heads, options)
    size("nn.MultiheadAttention", "width", width)
    size("nn.MultiheadAttention", "heads", heads)
    if width % heads ~= 0 then
      check.fail("INVALID", "nn.MultiheadAttention: heads is %d, which does not divide the width of %d", heads, width)
    end
    local o = check.options("nn.MultiheadAttention", options, {
      bias = {kind = "boolean", default = true}, is_causal = {kind = "boolean", default = false},
    })
    self.width, self.heads, self.is_causal = width, heads, o.is_causal
    self.qkv = layers.Linear(width, 3 * width, {bias = o.bias})
    self.proj = layers.Linear(width, width, {bias = o.bias})
  end,
  forward = function(self, x, context, mask)
    check_sequence("the input", x, self.width)
    context = context or x
    check_sequence("the context", context, self.width)
    local q, k, v = project(self, 1, x), project(self, 2, context), project(self, 3, context)
    local y
    if mask then
      y = core.scaled_dot_product_attention(q, k, v, mask, {is_causal = self.is_causal})
    else
      y = core.scaled_dot_product_attention(q, k, v, {is_causal = self.is_causal})
    end
    return self.proj(y:permute {dims = {1, 3, 2, 4}}:reshape(x.shape))
  end,
}, true)

return M
