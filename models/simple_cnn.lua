--- A small convolutional network for square images:
--- conv 3x3, relu, conv 3x3, relu, flatten, fc1, relu, fc2; no padding.
---   require "models.simple_cnn" {channels = 1, size = 28, classes = 10, width = {16, 32}, hidden = 64}
local nn = require "neap".nn

---@class models.simple_cnn.Config
---@field channels integer of the images
---@field size integer their height and width, at least 5
---@field classes integer
---@field width integer[] channels of the two convolutions
---@field hidden integer

local function check(config)
  for _, name in ipairs {"channels", "size", "classes", "hidden"} do
    local v = config[name]
    local min = name == "size" and 5 or 1
    if math.type(v) ~= "integer" or v < min then
      error(("models.simple_cnn: %s is %s, expected an integer of at least %d"):format(name, tostring(v), min), 3)
    end
  end
  if type(config.width) ~= "table" or #config.width ~= 2 then
    error("models.simple_cnn: width must be a list of two numbers, the channels of the convolutions", 3)
  end
  return config
end

local SimpleCNN = nn.module("SimpleCNN", {
  init = function(self, c)
    local side = c.size - 4 -- each 3x3 convolution takes two
    self.conv1 = nn.Conv2d(c.channels, c.width[1], 3)
    self.conv2 = nn.Conv2d(c.width[1], c.width[2], 3)
    self.fc1 = nn.Linear(c.width[2] * side * side, c.hidden)
    self.fc2 = nn.Linear(c.hidden, c.classes)
  end,
  -- x: (batch, channels, size, size)
  forward = function(self, x)
    x = self.conv1(x):relu()
    x = self.conv2(x):relu()
    x = self.fc1(x:flatten {start_dim = 2}):relu()
    return self.fc2(x)
  end,
})

---@param config models.simple_cnn.Config
---@return neap.Module
return function(config) return SimpleCNN(check(config)) end
