--- Layers over sequences: embeddings and attention.
local core = require "neap.core"
local check = require "neap.check"
local fill = require "neap.nn.fill"
local module = require "neap.nn.module"
local layers = require "neap.nn.layers"

local M = {}

local function size(what, name, v)
  return check.value(what, name, v, {kind = "integer", min = 1})
end

--- What `init` gives, with zeros in one row.
local function init_but(what, init, row)
  local slot = fill.slot {shape = 1, init = init}
  return function(shape)
    slot.shape = shape
    local tensor = fill.value(slot)
    if not check.is_tensor(tensor) then
      check.fail("INVALID", "%s: init gave %s, expected a tensor", what, check.describe(tensor))
    end
    tensor:select(1, row + 1):copy_(core.zeros(shape[2]))
    return tensor
  end
end

---@class neap.nn.EmbeddingOptions
---@field init? any as in `nn.parameter` (default "normal")
---@field padding_idx? integer index of what stands for nothing: its row begins as zeros and gets no gradient

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
    local o = check.options("nn.Embedding", options, {
      init = {kind = "any", default = "normal"}, padding_idx = {kind = "integer", min = 0, max = count - 1},
    })
    self.options = {padding_idx = o.padding_idx}
    local init = o.padding_idx and init_but("nn.Embedding", o.init, o.padding_idx) or o.init
    self.weight = module.parameter {shape = {count, width}, init = init}
  end,
  forward = function(self, x) return core.embedding(x, self.weight, self.options) end,
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

--- Scores, or a mask that is added to them, with -infinity where `mask` (bool: true takes part) says so, or with it
--- added.
local function masked(scores, mask)
  if mask.dtype ~= "bool" then return scores + mask end
  return scores:masked_fill(mask:logical_not(), {value = -math.huge})
end

--- (queries, keys), true where a key is not after the query
local function earlier(q, k)
  local places = core.arange(math.max(q.shape[3], k.shape[3]))
  return places:narrow(1, 1, q.shape[3]):unsqueeze(2):ge(places:narrow(1, 1, k.shape[3]))
end

--- The mask with causality in it, where there are both.
local function whole_mask(self, q, k, mask)
  if not mask or not self.is_causal then return mask end
  local causal = earlier(q, k)
  return mask.dtype == "bool" and mask:logical_and(causal) or masked(mask, causal)
end

--- scaled_dot_product_attention with dropout of its weights, which are then whole: (batch, heads, length, length)
local function attend_and_drop(self, q, k, v, mask)
  local scores = q:matmul(k:transpose(-2, -1)) * q.shape[4] ^ -0.5
  if self.is_causal and not mask then mask = earlier(q, k) end
  if mask then scores = masked(scores, mask) end
  return core.dropout(scores:softmax(-1), {p = self.dropout, training = true}):matmul(v)
end

local function attend(self, q, k, v, mask)
  mask = whole_mask(self, q, k, mask)
  if self.dropout > 0 and module.is_training(self) then return attend_and_drop(self, q, k, v, mask) end
  if mask then return core.scaled_dot_product_attention(q, k, v, mask) end
  return core.scaled_dot_product_attention(q, k, v, {is_causal = self.is_causal})
end

---@class neap.nn.AttentionOptions
---@field bias? boolean of the projections (default true)
---@field is_causal? boolean a position sees itself and those before it (default false)
---@field dropout? number of the weights, in training (default 0); they are then whole in memory

--- Scaled dot-product attention in several heads (Vaswani et al. 2017): `attention(x[, context[, mask]])` with x
--- [N, length, width] gives the same shape. Keys and values come from the context [N, other length, width] if there is
--- one; the mask is as `neap.scaled_dot_product_attention` has it, and goes together with `is_causal`. Without dropout
--- memory grows with the length, and not with its square. Children `qkv`, a `Linear(width, 3 width)` with the three
--- projections one below the other, and `proj`, a `Linear(width, width)`.
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
      dropout = {kind = "number", min = 0, max = 1, default = 0},
    })
    self.width, self.heads, self.is_causal, self.dropout = width, heads, o.is_causal, o.dropout
    self.qkv = layers.Linear(width, 3 * width, {bias = o.bias})
    self.proj = layers.Linear(width, width, {bias = o.bias})
  end,
  forward = function(self, x, context, mask)
    check_sequence("the input", x, self.width)
    context = context or x
    check_sequence("the context", context, self.width)
    local q, k, v = project(self, 1, x), project(self, 2, context), project(self, 3, context)
    local y = attend(self, q, k, v, mask)
    return self.proj(y:permute {dims = {1, 3, 2, 4}}:reshape(x.shape))
  end,
}, true)

return M
