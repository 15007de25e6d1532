--- Layers with PyTorch's names, options, layouts and first values. Positions come first, then a table of
--- options: nn.Conv2d(3, 16, 3, {padding = 1}).
local core = require "neap.core"
local check = require "neap.check"
local module = require "neap.nn.module"

local M = {}

local function layer(name, definition)
  M[name] = module.module(name, definition, true)
end

local function size(what, name, v)
  return check.value(what, name, v, {kind = "integer", min = 1})
end

--- One number for both directions, or {height, width}.
local function pair(what, name, v, min)
  local list = type(v) == "table" and v or {v, v}
  if #list ~= 2 then
    check.fail("INVALID", "%s: %s has %d entries, expected one number or {height, width}", what, name, #list)
  end
  for i = 1, 2 do check.value(what, name, list[i], {kind = "integer", min = min}) end
  return {math.tointeger(list[1]), math.tointeger(list[2])}
end

local function weight_and_bias(self, shape, fan_in, bias)
  self.weight = module.parameter {shape = shape}
  if bias then self.bias = module.parameter {shape = {shape[1]}, fan_in = fan_in} end
end

--- nn.Linear(inputs, outputs, {bias = true}): x @ weight^T + bias; weight: (outputs, inputs)
layer("Linear", {
  init = function(self, inputs, outputs, options)
    size("nn.Linear", "inputs", inputs)
    size("nn.Linear", "outputs", outputs)
    local o = check.options("nn.Linear", options, {bias = {kind = "boolean", default = true}})
    weight_and_bias(self, {outputs, inputs}, inputs, o.bias)
  end,
  forward = function(self, x)
    if self.bias then return core.linear(x, self.weight, self.bias) end
    return core.linear(x, self.weight)
  end,
})

local conv_options = {
  stride = {kind = "any", default = 1},
  padding = {kind = "any", default = 0},
  dilation = {kind = "any", default = 1},
  groups = {kind = "integer", default = 1, min = 1},
  bias = {kind = "boolean", default = true},
}

--- nn.Conv2d(inputs, outputs, kernel, {stride, padding, dilation, groups, bias});
--- weight: (outputs, inputs / groups, kernel height, kernel width)
layer("Conv2d", {
  init = function(self, inputs, outputs, kernel, options)
    size("nn.Conv2d", "inputs", inputs)
    size("nn.Conv2d", "outputs", outputs)
    local k = pair("nn.Conv2d", "the kernel", kernel, 1)
    local o = check.options("nn.Conv2d", options, conv_options)
    if inputs % o.groups ~= 0 or outputs % o.groups ~= 0 then
      check.fail("INVALID", "nn.Conv2d: groups is %d, which must divide both %d inputs and %d outputs", o.groups,
                 inputs, outputs)
    end
    self.options = {
      stride = pair("nn.Conv2d", "stride", o.stride, 1), padding = pair("nn.Conv2d", "padding", o.padding, 0),
      dilation = pair("nn.Conv2d", "dilation", o.dilation, 1), groups = o.groups,
    }
    local per_group = inputs // o.groups
    weight_and_bias(self, {outputs, per_group, k[1], k[2]}, per_group * k[1] * k[2], o.bias)
  end,
  forward = function(self, x)
    if self.bias then return core.conv2d(x, self.weight, self.bias, self.options) end
    return core.conv2d(x, self.weight, self.options)
  end,
})

local function pool(name, op, extra)
  local specs = {stride = {kind = "any"}, padding = {kind = "any"}, ceil_mode = {kind = "boolean"}}
  for key, spec in pairs(extra) do specs[key] = spec end
  local what = "nn." .. name
  layer(name, {
    init = function(self, kernel, options)
      local o = check.options(what, options, specs)
      o.kernel_size = pair(what, "the kernel", kernel, 1)
      if o.stride then o.stride = pair(what, "stride", o.stride, 1) end
      if o.padding then o.padding = pair(what, "padding", o.padding, 0) end
      if o.dilation then o.dilation = pair(what, "dilation", o.dilation, 1) end
      self.options = o
    end,
    forward = function(self, x) return core[op](x, self.options) end,
  })
end

--- nn.MaxPool2d(kernel, {stride = kernel, padding, dilation, ceil_mode})
pool("MaxPool2d", "max_pool2d", {dilation = {kind = "any"}})
--- nn.AvgPool2d(kernel, {stride = kernel, padding, ceil_mode, count_include_pad})
pool("AvgPool2d", "avg_pool2d", {count_include_pad = {kind = "boolean"}})

--- nn.Flatten(first = 2, last = -1): positions of dimensions; the batch stays by default
layer("Flatten", {
  init = function(self, first, last)
    self.first = check.value("nn.Flatten", "first", first or 2, {kind = "integer"})
    self.last = check.value("nn.Flatten", "last", last or -1, {kind = "integer"})
  end,
  forward = function(self, x) return core.flatten(x, {start_dim = self.first, end_dim = self.last}) end,
})

local function activation(name, op)
  layer(name, {forward = function(_, x) return core[op](x) end})
end

activation("ReLU", "relu")
activation("Tanh", "tanh")
activation("Sigmoid", "sigmoid")
activation("SiLU", "silu")

--- nn.GELU(): exact
activation("GELU", "gelu")

local function over_dim(name, op)
  layer(name, {
    init = function(self, dim)
      self.dim = check.value("nn." .. name, "dim", dim or -1, {kind = "integer"})
    end,
    forward = function(self, x) return core[op](x, {dim = self.dim}) end,
  })
end

--- nn.Softmax(dim = -1)
over_dim("Softmax", "softmax")
over_dim("LogSoftmax", "log_softmax")

layer("Identity", {forward = function(_, x) return x end})

return M
