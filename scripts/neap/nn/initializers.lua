--- First values of parameters by name, with PyTorch's formulas and defaults. In nn.parameter{init=}: a name, or a name
--- with options: {"xavier_uniform", gain = 2}. For tensors that are there: nn.init.orthogonal(layer.weight).
local core = require "neap.core"
local check = require "neap.check"

local M = {}

--- A slot's {shape, dtype, fan_in} and the options of a rule give a tensor.
---@class neap.nn.init
local rules = {}
M.rules = rules
local specs = {}

-- Drawing ----------------------------------------------------------------------------------------------

--- Replaces t by fn(t) and gives t back at once, so that a draw holds two copies at most.
local function then_close(t, fn)
  local out = fn(t)
  t:close()
  return out
end

local function scaled(t, scale, shift)
  local drawn = then_close(t, function(x) return x * scale end)
  if shift == 0 then return drawn end
  return then_close(drawn, function(x) return x + shift end)
end

local PIECE <const> = 65536 -- elements

--- draw(shape, dtype), in pieces, so that a large parameter needs little more than itself.
local function in_pieces(slot, draw)
  local shape, count = slot.shape, 1
  for _, n in ipairs(shape) do count = count * n end
  if count <= PIECE then return draw(shape, slot.dtype) end
  local whole, rows = core.zeros(shape, {dtype = slot.dtype}), math.max(1, PIECE * shape[1] // count)
  for first = 1, shape[1], rows do
    local part = {table.unpack(shape)}
    part[1] = math.min(rows, shape[1] - first + 1)
    local piece <close> = draw(part, slot.dtype)
    whole:narrow(1, first, part[1]):copy_(piece)
  end
  return whole
end

--- U(low, high)
local function uniform(slot, low, high)
  return in_pieces(slot, function(shape, dtype)
    return scaled(core.rand(shape, {dtype = dtype}), high - low, low)
  end)
end

--- N(mean, std^2)
local function normal(slot, mean, std)
  return in_pieces(slot, function(shape, dtype)
    return scaled(core.randn(shape, {dtype = dtype}), std, mean)
  end)
end

-- Fans -------------------------------------------------------------------------------------------------

--- Entries that feed one output: PyTorch counts all dimensions but the first.
local function fan_in(slot)
  local shape, n = slot.shape, 1
  if slot.fan_in then return slot.fan_in end
  for i = 2, #shape do n = n * shape[i] end
  return #shape > 1 and n or shape[1] or 1
end

--- Entries that one input feeds: all dimensions but the second.
local function fan_out(slot)
  local shape, n = slot.shape, 1
  for i, size in ipairs(shape) do n = i == 2 and n or n * size end
  return n
end

local function need_matrix(what, slot)
  if #slot.shape < 2 then
    check.fail("SHAPE", "%s: the shape is %s, expected two dimensions or more", what, check.shape_text(slot.shape))
  end
end

-- Rules ------------------------------------------------------------------------------------------------


--- All zeros
function rules.zeros(slot) return core.zeros(slot.shape, {dtype = slot.dtype}) end
--- All ones
function rules.ones(slot) return core.ones(slot.shape, {dtype = slot.dtype}) end

specs.constant = {value = {kind = "number", required = true}}
--- All of one value. Options `{value=}`
function rules.constant(slot, o) return core.full(slot.shape, o.value, {dtype = slot.dtype}) end

specs.uniform = {low = {kind = "number", default = 0}, high = {kind = "number", default = 1}}
--- U(low, high). Options `{low = 0, high = 1}`
function rules.uniform(slot, o) return uniform(slot, o.low, o.high) end

specs.normal = {mean = {kind = "number", default = 0}, std = {kind = "number", min = 0, default = 1}}
--- N(mean, std^2). Options `{mean = 0, std = 1}`
function rules.normal(slot, o)
  if o.mean == 0 and o.std == 1 then return core.randn(slot.shape, {dtype = slot.dtype}) end
  return normal(slot, o.mean, o.std)
end

local function tail_below(x) -- of N(0, 1), by a bound that is good to 1e-7 (Abramowitz and Stegun 26.2.17)
  local t = 1 / (1 + 0.2316419 * math.abs(x))
  local tail = math.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    * t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
  return x < 0 and tail or 1 - tail
end

specs.trunc_normal = {
  mean = {kind = "number", default = 0}, std = {kind = "number", above = 0, default = 1},
  a = {kind = "number", default = -2}, b = {kind = "number", default = 2},
}
--- N(mean, std^2) between a and b, drawn again where it is beyond. Options `{mean = 0, std = 1, a = -2, b = 2}`
function rules.trunc_normal(slot, o)
  if tail_below((o.b - o.mean) / o.std) - tail_below((o.a - o.mean) / o.std) < 0.01 then
    check.fail("INVALID", "trunc_normal: less than 1%% of N(%g, %g^2) lies between a = %g and b = %g", o.mean, o.std,
               o.a, o.b)
  end
  return in_pieces(slot, function(shape, dtype)
    local drawn = scaled(core.randn(shape, {dtype = dtype}), o.std, o.mean)
    while true do
      local beyond = core.logical_or(drawn:lt(o.a), drawn:gt(o.b))
      if beyond:to("int64"):sum():item() == 0 then return drawn end
      local other <close> = scaled(core.randn(shape, {dtype = dtype}), o.std, o.mean)
      drawn = then_close(drawn, function(t) return core.where(beyond, other, t) end)
    end
  end)
end

specs.xavier_uniform = {gain = {kind = "number", min = 0, default = 1}}
specs.xavier_normal = specs.xavier_uniform
--- U(-r, r), r = gain sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010). Options `{gain = 1}`
function rules.xavier_uniform(slot, o)
  need_matrix("xavier_uniform", slot)
  local bound = o.gain * math.sqrt(6 / math.max(1, fan_in(slot) + fan_out(slot)))
  return uniform(slot, -bound, bound)
end

--- N(0, gain^2 2 / (fan_in + fan_out)). Options `{gain = 1}`
function rules.xavier_normal(slot, o)
  need_matrix("xavier_normal", slot)
  return normal(slot, 0, o.gain * math.sqrt(2 / math.max(1, fan_in(slot) + fan_out(slot))))
end

local gains = {
  linear = function() return 1 end, sigmoid = function() return 1 end, tanh = function() return 5 / 3 end,
  relu = function() return math.sqrt(2) end, selu = function() return 3 / 4 end,
  leaky_relu = function(a) return math.sqrt(2 / (1 + a * a)) end,
}

--- The gain for a nonlinearity, over the root of a fan.
local function kaiming(what, slot, o)
  local gain = gains[o.nonlinearity]
  if not gain then
    check.fail("INVALID", "%s: nonlinearity is %q, expected one of %s", what, o.nonlinearity,
               table.concat(check.sorted_keys(gains), ", "))
  end
  if o.mode ~= "fan_in" and o.mode ~= "fan_out" then
    check.fail("INVALID", "%s: mode is %q, expected \"fan_in\" or \"fan_out\"", what, o.mode)
  end
  local fan = o.mode == "fan_in" and fan_in(slot) or fan_out(slot)
  return fan > 0 and gain(o.a) / math.sqrt(fan) or 0
end

local function kaiming_specs(a)
  return {
    a = {kind = "number", default = a}, mode = {kind = "string", default = "fan_in"},
    nonlinearity = {kind = "string", default = "leaky_relu"},
  }
end

specs.kaiming_uniform, specs.kaiming_normal = kaiming_specs(math.sqrt(5)), kaiming_specs(0)
--- U(-r, r), r = gain sqrt(3 / fan) (He et al. 2015); with a = sqrt(5), as PyTorch's layers begin, r is 1 / sqrt(fan).
--- Options `{a = sqrt(5), mode = "fan_in", nonlinearity = "leaky_relu"}`
function rules.kaiming_uniform(slot, o)
  if o.a == math.sqrt(5) and o.mode == "fan_in" and o.nonlinearity == "leaky_relu" then
    local n = fan_in(slot)
    local bound = n > 0 and 1 / math.sqrt(n) or 0
    return uniform(slot, -bound, bound)
  end
  local bound = kaiming("kaiming_uniform", slot, o) * math.sqrt(3)
  return uniform(slot, -bound, bound)
end

--- N(0, gain^2 / fan). Options `{a = 0, mode = "fan_in", nonlinearity = "leaky_relu"}`
function rules.kaiming_normal(slot, o)
  return normal(slot, 0, kaiming("kaiming_normal", slot, o))
end

local BLOCK <const> = 32 -- rows

--- Row v without its parts along the rows of q, twice, since once leaves what rounding lost (Giraud et al. 2005).
local function without(v, q)
  for _ = 1, 2 do v = v - v:matmul(q:transpose(1, 2)):matmul(q) end
  return v
end

--- Makes the rows of m (rows <= columns, fp64) orthonormal, from the first on (Gram and Schmidt, by blocks).
local function orthonormal(m)
  local rows = m.shape[1]
  for first = 1, rows, BLOCK do
    local n = math.min(BLOCK, rows - first + 1)
    local block = m:narrow(1, first, n)
    if first > 1 then block:copy_(without(block, m:narrow(1, 1, first - 1))) end
    for i = 1, n do
      local v = block:narrow(1, i, 1)
      if i > 1 then v:copy_(without(v, block:narrow(1, 1, i - 1))) end
      v:copy_(v / v:square():sum():sqrt())
    end
  end
  return m
end

specs.orthogonal = {gain = {kind = "number", default = 1}}
--- Orthonormal rows or columns, whichever are fewer, times gain (Saxe et al. 2013). Options `{gain = 1}`
function rules.orthogonal(slot, o)
  need_matrix("orthogonal", slot)
  local rows, columns = slot.shape[1], 1
  for i = 2, #slot.shape do columns = columns * slot.shape[i] end
  if rows * columns == 0 then return rules.zeros(slot) end
  local flat = core.randn(math.min(rows, columns), math.max(rows, columns), {dtype = "fp64"})
  local q = orthonormal(flat) * o.gain
  if rows > columns then q = q:transpose(1, 2) end
  return q:reshape(slot.shape):to(slot.dtype):clone()
end

-- Use --------------------------------------------------------------------------------------------------

--- What nn.parameter and nn.init take, checked: the rule and its options; nil when it names no rule.
---@param what string
---@param init any
---@return function? rule, table? options
function M.read(what, init)
  local name = type(init) == "table" and not check.is_tensor(init) and init[1] or init
  local rule = type(name) == "string" and rules[name]
  if not rule then return nil end
  local given = {}
  for key, v in pairs(type(init) == "table" and init or {}) do
    if key ~= 1 then given[key] = v end
  end
  return rule, check.options(("%s: init %q"):format(what, name), given, specs[name] or {})
end

--- Functions that write first values to a tensor at once, from the engine's stream of numbers:
--- nn.init.xavier_uniform(tensor[, {gain = 2}]) -> tensor
M.functions = {}
for name, rule in pairs(rules) do
  M.functions[name] = function(tensor, options)
    local what = "nn.init." .. name
    if not check.is_tensor(tensor) then
      check.fail("INVALID", "%s: got %s, expected a tensor", what, check.describe(tensor))
    end
    local o = check.options(what, options, specs[name] or {})
    local drawn <close> = rule({shape = tensor.shape, dtype = tensor.dtype}, o)
    return tensor:copy_(drawn)
  end
end

return M
