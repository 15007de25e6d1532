--- An autoencoder: a perceptron down to a narrow code, and its mirror back up.
---   local model = require "models.autoencoder" {sizes = {784, 128, 16}}
---   local y = model(x)                     -- scores of what x was; sigmoid makes them values in (0, 1)
---   local code = model.encoder(x)          -- (batch, 16)
local nn = require "neap".nn

---@class models.autoencoder.Config
---@field sizes integer[] of the input, the hidden layers and the code

local function check(config)
  local sizes = config.sizes
  if type(sizes) ~= "table" or #sizes < 2 then
    error("models.autoencoder: sizes must be a list of at least two numbers: input, hidden ..., code", 3)
  end
  for i, n in ipairs(sizes) do
    if math.type(n) ~= "integer" or n < 1 then
      error(("models.autoencoder: sizes[%d] is %s, expected an integer of at least 1"):format(i, tostring(n)), 3)
    end
  end
  return sizes
end

--- Linear layers through the sizes, with relu between two of them.
local function perceptron(sizes)
  local list = {}
  for i = 1, #sizes - 1 do
    if i > 1 then list[#list + 1] = {"relu" .. i - 1, nn.ReLU()} end
    list[#list + 1] = {"fc" .. i, nn.Linear(sizes[i], sizes[i + 1])}
  end
  return nn.Sequential(list)
end

local Autoencoder = nn.module("Autoencoder", {
  init = function(self, sizes)
    local back = {}
    for i, n in ipairs(sizes) do back[#sizes + 1 - i] = n end
    self.encoder = perceptron(sizes)
    self.decoder = perceptron(back)
  end,
  -- x: (batch, sizes[1])
  forward = function(self, x) return self.decoder(self.encoder(x)) end,
})

---@param config models.autoencoder.Config
---@return neap.Module
return function(config) return Autoencoder(check(config)) end
