--- Recurrent layers with PyTorch's names, options, layouts and first values. State is taken and given back, so
--- that a later call goes on where one ended:
---
---   local y, h, c = lstm(x)          -- zero first states
---   y, h, c = lstm(next_x, h, c)
local core = require "neap.core"
local check = require "neap.check"
local module = require "neap.nn.module"

local M = {}

local function size(what, name, v)
  return check.value(what, name, v, {kind = "integer", min = 1})
end

-- What a kind does with the gates of all steps: returns all h and the last states.
local kinds = {
  LSTM = {gates = 4, states = {"the hidden state", "the cell state"}},
  GRU = {gates = 3, states = {"the hidden state"}},
  RNN = {gates = 1, states = {"the hidden state"}},
}

--- The last of y's steps: (batch, width)
local function last(y) return y:select(2, -1) end

function kinds.LSTM.scan(_, gates, weight, _, h, c)
  local y, cell
  if h then y, cell = core.lstm_scan(gates, weight, h, c) else y, cell = core.lstm_scan(gates, weight) end
  return y, last(y), cell
end

function kinds.GRU.scan(_, gates, weight, bias, h)
  local y
  if bias and h then
    y = core.gru_scan(gates, weight, bias, h)
  elseif bias or h then
    y = core.gru_scan(gates, weight, bias or h)
  else
    y = core.gru_scan(gates, weight)
  end
  return y, last(y)
end

function kinds.RNN.scan(self, gates, weight, _, h)
  local options = {nonlinearity = self.nonlinearity}
  local y
  if h then y = core.rnn_scan(gates, weight, h, options) else y = core.rnn_scan(gates, weight, options) end
  return y, last(y)
end

-- Parameters -------------------------------------------------------------------------------------------

--- "_l0", "_l0_reverse": layers count from 0, as PyTorch's do.
local function suffix(layer, direction)
  return ("_l%d%s"):format(layer - 1, direction == 2 and "_reverse" or "")
end

local function add_parameters(self, kind, inputs, width, o)
  local rows = kind.gates * width
  for layer = 1, o.num_layers do
    for direction = 1, self.directions do
      local s = suffix(layer, direction)
      local from = layer == 1 and inputs or width * self.directions
      -- U(-1/sqrt(width), 1/sqrt(width)), all of them
      self["weight_ih" .. s] = module.parameter {shape = {rows, from}, fan_in = width}
      self["weight_hh" .. s] = module.parameter {shape = {rows, width}, fan_in = width}
      if o.bias then
        self["bias_ih" .. s] = module.parameter {shape = {rows}, fan_in = width}
        self["bias_hh" .. s] = module.parameter {shape = {rows}, fan_in = width}
      end
    end
  end
end

-- States -----------------------------------------------------------------------------------------------

--- States as the layers take them: a list of (batch, width) for each, or nil where none were given.
local function split_states(self, what, kind, x, given)
  if not given[1] and not given[2] then return nil end
  local rows, lists = self.num_layers * self.directions, {}
  for i, name in ipairs(kind.states) do
    local state = given[i]
    if not check.is_tensor(state) then
      check.fail("INVALID", "%s: %s is %s, expected a tensor beside the other", what, name, check.describe(state))
    end
    local flat = rows == 1 and state.ndim == 2
    local shape = flat and {x.shape[1], self.hidden_size} or {rows, x.shape[1], self.hidden_size}
    if check.shape_text(state.shape) ~= check.shape_text(shape) then
      check.fail("SHAPE", "%s: %s is %s, expected %s", what, name, check.shape_text(state.shape),
                 check.shape_text(shape))
    end
    lists[i] = {flat = flat}
    for row = 1, rows do lists[i][row] = flat and state or state:select(1, row) end
  end
  return lists
end

--- The last states as they were given: one above the other, or flat.
local function join_states(lists, given)
  local out = {}
  for i, list in ipairs(lists) do
    out[i] = given and given[i].flat and list[1] or core.stack(table.unpack(list))
  end
  return table.unpack(out)
end

-- Layers -----------------------------------------------------------------------------------------------

--- One direction of one layer over x: (batch, steps, inputs) -> all h, last states
local function scan(self, kind, s, x, ...)
  local ih, hh = self["bias_ih" .. s], self["bias_hh" .. s]
  local weight = self["weight_ih" .. s]
  local gates
  if not ih then
    gates = core.linear(x, weight)
  elseif kind == kinds.GRU then
    gates = core.linear(x, weight, ih)
  else
    gates = core.linear(x, weight, ih + hh)
  end
  return kind.scan(self, gates, self["weight_hh" .. s], hh, ...)
end

local function layer_of(self, kind, layer, x, given, lasts)
  local outputs = {}
  for direction = 1, self.directions do
    local row = (layer - 1) * self.directions + direction
    local states = {}
    for i, list in ipairs(given or {}) do states[i] = list[row] end
    local from = direction == 2 and x:flip(2) or x
    local results = table.pack(scan(self, kind, suffix(layer, direction), from, table.unpack(states)))
    outputs[direction] = direction == 2 and results[1]:flip(2) or results[1]
    for i = 2, results.n do lasts[i - 1][row] = results[i] end
  end
  if #outputs == 1 then return outputs[1] end
  return core.cat(outputs[1], outputs[2], {dim = 3})
end

local function check_input(self, what, x)
  if not check.is_tensor(x) then
    check.fail("INVALID", "%s: the input is %s, expected a tensor", what, check.describe(x))
  end
  if x.ndim ~= 3 or x.shape[3] ~= self.input_size then
    check.fail("SHAPE", "%s: the input is %s, expected (%s, %d)", what, check.shape_text(x.shape),
               self.batch_first and "batch, steps" or "steps, batch", self.input_size)
  end
end

local function forward(self, what, kind, x, ...)
  check_input(self, what, x)
  if not self.batch_first then x = x:permute {dims = {2, 1, 3}} end
  local given, lasts = split_states(self, what, kind, x, {...}), {}
  for i = 1, #kind.states do lasts[i] = {} end
  for layer = 1, self.num_layers do
    x = layer_of(self, kind, layer, x, given, lasts)
    if self.dropout > 0 and layer < self.num_layers then
      x = core.dropout(x, {p = self.dropout, training = module.is_training(self)})
    end
  end
  if not self.batch_first then x = x:permute {dims = {2, 1, 3}} end
  return x, join_states(lasts, given)
end

local function recurrent(name, extra)
  local what, kind = "nn." .. name, kinds[name]
  local specs = {
    num_layers = {kind = "integer", min = 1, default = 1}, bias = {kind = "boolean", default = true},
    batch_first = {kind = "boolean", default = false}, dropout = {kind = "number", min = 0, max = 1, default = 0},
    bidirectional = {kind = "boolean", default = false},
  }
  for key, spec in pairs(extra or {}) do specs[key] = spec end
  M[name] = module.module(name, {
    init = function(self, inputs, width, options)
      self.input_size, self.hidden_size = size(what, "inputs", inputs), size(what, "width", width)
      local o = check.options(what, options, specs)
      if o.nonlinearity and o.nonlinearity ~= "tanh" and o.nonlinearity ~= "relu" then
        check.fail("INVALID", "%s: nonlinearity is %q, expected \"tanh\" or \"relu\"", what, o.nonlinearity)
      end
      self.num_layers, self.batch_first, self.dropout = o.num_layers, o.batch_first, o.dropout
      self.directions, self.nonlinearity = o.bidirectional and 2 or 1, o.nonlinearity
      add_parameters(self, kind, inputs, width, o)
    end,
    forward = function(self, x, ...) return forward(self, what, kind, x, ...) end,
  }, true)
end

---@class neap.nn.RecurrentOptions
---@field num_layers? integer one above the other (default 1)
---@field bias? boolean (default true)
---@field batch_first? boolean x is [N, steps, inputs], and so are the outputs (default false)
---@field dropout? number between layers, in training (default 0)
---@field bidirectional? boolean a second direction, from the last step to the first (default false)
---@field nonlinearity? "tanh"|"relu" `nn.RNN` alone (default "tanh")

--- `lstm(x[, h, c])` gives all h, the last h and the last c (Hochreiter and Schmidhuber 1997). x is [steps, N, inputs],
--- all h [steps, N, width] (twice the width with two directions). States are [layers, N, width], whatever `batch_first`
--- says; of a single layer [N, width] is taken, too, and then given back, so that a batch of states can be cut into
--- micro-batches. Parameters are PyTorch's: `weight_ih_l0` [4 width, inputs], `weight_hh_l0` [4 width, width],
--- `bias_ih_l0`, `bias_hh_l0`, with `_reverse` for the second direction.
---@param inputs integer
---@param width integer
---@param options? neap.nn.RecurrentOptions
---@return neap.Module
recurrent "LSTM"
--- `gru(x[, h])` gives all h and the last h (Cho et al. 2014); shapes as for `LSTM`, parameters with 3 gates.
---@param inputs integer
---@param width integer
---@param options? neap.nn.RecurrentOptions
---@return neap.Module
recurrent "GRU"
--- `rnn(x[, h])` gives all h and the last h, `h' = tanh(W x + b + U h + d)` (Elman 1990); shapes as for `LSTM`.
---@param inputs integer
---@param width integer
---@param options? neap.nn.RecurrentOptions
---@return neap.Module
recurrent("RNN", {nonlinearity = {kind = "string", default = "tanh"}})

return M
