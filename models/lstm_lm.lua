--- A language model of recurrent layers that carries its state from one piece of text to the next:
---   local model = require "models.lstm_lm" {vocab = 65, d = 128, layers = 2}
---   local scores, h, c = model(tokens)       -- then model(next_tokens, h, c)
local neap = require "neap"
local nn = neap.nn

---@class models.lstm_lm.Config
---@field vocab integer number of tokens
---@field d integer width of the embedding and of the layers
---@field layers integer
---@field dropout? number between layers, 0 when left out

local function check(config)
  for _, name in ipairs {"vocab", "d", "layers"} do
    local v = config[name]
    if math.type(v) ~= "integer" or v < 1 then
      error(("models.lstm_lm: %s is %s, expected an integer of at least 1"):format(name, tostring(v)), 3)
    end
  end
  return config
end

local LSTMLM = nn.module("LSTMLM", {
  init = function(self, c)
    self.tok = nn.Embedding(c.vocab, c.d)
    self.lstm = nn.LSTM(c.d, c.d, {num_layers = c.layers, batch_first = true, dropout = c.dropout or 0})
    self.head = nn.Linear(c.d, c.vocab)
  end,
  -- tokens: (batch, length) of int64 -> scores: (batch, length, vocab), and the state after them
  forward = function(self, tokens, h, c)
    local y
    y, h, c = self.lstm(self.tok(tokens), h, c)
    return self.head(y), h, c
  end,
})

---@param config models.lstm_lm.Config
---@return neap.Module
return function(config) return LSTMLM(check(config)) end
