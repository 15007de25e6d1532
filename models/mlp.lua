--- A multi-layer perceptron: fc1, activation, fc2, ... without an activation after the last layer.
---   require "models.mlp" {sizes = {784, 256, 10}, activation = "relu"}
local neap = require "neap"
local nn = neap.nn

local activations = {
  relu = neap.relu, tanh = neap.tanh, sigmoid = neap.sigmoid, gelu = neap.gelu, silu = neap.silu,
}

---@class models.mlp.Config
---@field sizes integer[] of the input, the hidden layers and the output
---@field activation? "relu"|"tanh"|"sigmoid"|"gelu"|"silu"

local function check(config)
  local sizes, name = config.sizes, config.activation or "relu"
  if type(sizes) ~= "table" or #sizes < 2 then
    error("models.mlp: sizes must be a list of at least two numbers: input, hidden ..., output", 3)
  end
  if not activations[name] then
    error(("models.mlp: activation is %q, expected relu, tanh, sigmoid, gelu or silu"):format(tostring(name)), 3)
  end
  return sizes, name
end

local MLP = nn.module("MLP", {
  init = function(self, sizes, activation)
    self.depth, self.activation = #sizes - 1, activation
    for i = 1, #sizes - 1 do self["fc" .. i] = nn.Linear(sizes[i], sizes[i + 1]) end
  end,
  -- x: (batch, sizes[1])
  forward = function(self, x)
    local activate = activations[self.activation]
    for i = 1, self.depth - 1 do x = activate(self["fc" .. i](x)) end
    return self["fc" .. self.depth](x)
  end,
})

---@param config models.mlp.Config
---@return neap.Module
return function(config) return MLP(check(config)) end
