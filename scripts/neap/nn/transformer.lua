--- Blocks of transformers with PyTorch's names, options and arithmetic.
local core = require "neap.core"
local check = require "neap.check"
local attention = require "neap.nn.attention"
local layers = require "neap.nn.layers"
local module = require "neap.nn.module"
local norm = require "neap.nn.norm"

local M = {}

local activations = {relu = core.relu, gelu = core.gelu}

local function attend(self, x, mask)
  return self.dropout1(self.self_attn(x, nil, mask))
end

local function feed(self, x)
  return self.dropout2(self.linear2(self.dropout(self.activate(self.linear1(x)))))
end

---@class neap.nn.TransformerEncoderOptions
---@field feedforward? integer width between the two linear layers (default 2048)
---@field dropout? number of attention's weights, and of what attention and the linear layers give (default 0.1)
---@field activation? "relu"|"gelu" between the linear layers (default "relu")
---@field layer_norm_eps? number (default 1e-5)
---@field norm_first? boolean normalize what goes in and not what comes out (default false)
---@field bias? boolean of all layers (default true)
---@field is_causal? boolean a position sees itself and those before it (default false)

--- Self-attention, then two linear layers, each with a layer norm and its input added (Vaswani et al. 2017):
--- `layer(x[, mask])` with x [N, length, width] gives the same shape; the mask is as
--- `neap.scaled_dot_product_attention` has it. Children `self_attn`, `linear1`, `linear2`, `norm1`, `norm2`.
---@param width integer
---@param heads integer a divisor of the width
---@param options? neap.nn.TransformerEncoderOptions
---@return neap.Module
M.TransformerEncoderLayer = module.module("TransformerEncoderLayer", {
  init = function(self, width, heads, options)
    local what = "nn.TransformerEncoderLayer"
    local o = check.options(what, options, {
      feedforward = {kind = "integer", min = 1, default = 2048},
      dropout = {kind = "number", min = 0, max = 1, default = 0.1},
      activation = {kind = "string", default = "relu"}, layer_norm_eps = {kind = "number", min = 0, default = 1e-5},
      norm_first = {kind = "boolean", default = false}, bias = {kind = "boolean", default = true},
      is_causal = {kind = "boolean", default = false},
    })
    self.activate, self.norm_first = activations[o.activation], o.norm_first
    if not self.activate then
      check.fail("INVALID", "%s: activation is %q, expected \"relu\" or \"gelu\"", what, o.activation)
    end
    self.self_attn = attention.MultiheadAttention(width, heads, {
      bias = o.bias, is_causal = o.is_causal, dropout = o.dropout,
    })
    self.linear1 = layers.Linear(width, o.feedforward, {bias = o.bias})
    self.linear2 = layers.Linear(o.feedforward, width, {bias = o.bias})
    for i = 1, 2 do self["norm" .. i] = norm.LayerNorm(width, {eps = o.layer_norm_eps, bias = o.bias}) end
    for _, name in ipairs {"dropout", "dropout1", "dropout2"} do self[name] = layers.Dropout(o.dropout) end
  end,
  forward = function(self, x, mask)
    if self.norm_first then
      x = x + attend(self, self.norm1(x), mask)
      return x + feed(self, self.norm2(x))
    end
    x = self.norm1(x + attend(self, x, mask))
    return self.norm2(x + feed(self, x))
  end,
}, true)

return M
