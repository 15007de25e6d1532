--- A character-level transformer: pre-norm blocks of causal attention and a gelu layer, learned positions.
---   require "models.gpt" {vocab = 65, d = 128, heads = 4, layers = 4, context = 64}
local neap = require "neap"
local nn = neap.nn

---@class models.gpt.Config
---@field vocab integer number of tokens
---@field d integer width
---@field heads integer which divides d
---@field layers integer
---@field context integer tokens a sequence may have

local function check(config)
  for _, name in ipairs {"vocab", "d", "heads", "layers", "context"} do
    local v = config[name]
    if math.type(v) ~= "integer" or v < 1 then
      error(("models.gpt: %s is %s, expected an integer of at least 1"):format(name, tostring(v)), 3)
    end
  end
  if config.d % config.heads ~= 0 then
    error(("models.gpt: heads is %d, which does not divide d, %d"):format(config.heads, config.d), 3)
  end
  return config
end

--- N(0, 0.02), as GPT-2 (Radford et al. 2019): with the layer norms' widths, first scores are then near zero.
local function small(shape)
  return neap.randn(shape) * 0.02
end

local Block = nn.module("Block", {
  init = function(self, d, heads)
    self.ln1 = nn.LayerNorm(d)
    self.attn = nn.MultiheadAttention(d, heads, {is_causal = true})
    self.ln2 = nn.LayerNorm(d)
    self.fc1 = nn.Linear(d, 4 * d)
    self.fc2 = nn.Linear(4 * d, d)
  end,
  -- x: (batch, length, d)
  forward = function(self, x)
    x = x + self.attn(self.ln1(x))
    return x + self.fc2(self.fc1(self.ln2(x)):gelu())
  end,
})

local GPT = nn.module("GPT", {
  init = function(self, c)
    self.layers, self.context = c.layers, c.context
    self.tok = nn.Embedding(c.vocab, c.d, {init = small})
    self.pos = nn.Embedding(c.context, c.d, {init = small})
    for i = 1, c.layers do self["block" .. i] = Block(c.d, c.heads) end
    self.ln = nn.LayerNorm(c.d)
    self.head = nn.Linear(c.d, c.vocab, {bias = false})
  end,
  -- tokens: (batch, length) of int64, length at most context -> scores: (batch, length, vocab)
  forward = function(self, tokens)
    local length = tokens.shape[2]
    if tokens.ndim ~= 2 or length > self.context then
      error(("models.gpt: tokens are [%s], expected [batch, length] with a length of at most %d"):format(
        table.concat(tokens.shape, ", "), self.context), 2)
    end
    local x = self.tok(tokens) + self.pos.weight:narrow(1, 1, length)
    for i = 1, self.layers do x = self["block" .. i](x) end
    return self.head(self.ln(x))
  end,
})

---@param config models.gpt.Config
---@return neap.Module
return function(config) return GPT(check(config)) end
