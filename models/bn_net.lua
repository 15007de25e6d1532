--- A convolution 3x3 without bias, batch normalization, relu, mean over height and width, a linear layer.
---   require "models.bn_net" {channels = 3, width = 6, classes = 4}
local nn = require "neap".nn

---@class models.bn_net.Config
---@field channels integer of the images
---@field width integer channels of the convolution
---@field classes integer

local function check(config)
  for _, name in ipairs {"channels", "width", "classes"} do
    local v = config[name]
    if math.type(v) ~= "integer" or v < 1 then
      error(("models.bn_net: %s is %s, expected an integer of at least 1"):format(name, tostring(v)), 3)
    end
  end
  return config
end

local BNNet = nn.module("BNNet", {
  init = function(self, c)
    self.conv1 = nn.Conv2d(c.channels, c.width, 3, {padding = 1, bias = false})
    self.bn1 = nn.BatchNorm2d(c.width)
    self.fc = nn.Linear(c.width, c.classes)
  end,
  -- x: (batch, channels, height, width)
  forward = function(self, x)
    return self.fc(self.bn1(self.conv1(x)):relu():mean {dim = {3, 4}})
  end,
})

---@param config models.bn_net.Config
---@return neap.Module
return function(config) return BNNet(check(config)) end
