--- Residual networks for small images (He et al. 2016, as of CIFAR): a 3x3 stem without pooling, four stages of
--- two-convolution blocks at 1, 2, 4 and 8 times the width, the mean over places, a linear layer. The paths are
--- torchvision's, so that its ResNet-18 and ResNet-34 of such a stem can be loaded.
---   require "models.resnet" {depth = 18, classes = 10}
local nn = require "neap".nn

---@class models.resnet.Config
---@field depth integer 18 or 34
---@field classes integer
---@field channels? integer of the images; 3 unless said
---@field width? integer channels of the first stage; 64 unless said

local blocks = {[18] = {2, 2, 2, 2}, [34] = {3, 4, 6, 3}}

local function check(config)
  if not blocks[config.depth] then
    error(("models.resnet: depth is %s, expected 18 or 34"):format(tostring(config.depth)), 3)
  end
  local c = {
    depth = config.depth, classes = config.classes, channels = config.channels or 3, width = config.width or 64,
  }
  for _, name in ipairs {"classes", "channels", "width"} do
    if math.type(c[name]) ~= "integer" or c[name] < 1 then
      error(("models.resnet: %s is %s, expected an integer of at least 1"):format(name, tostring(c[name])), 3)
    end
  end
  return c
end

local function conv(inputs, outputs, kernel, stride)
  return nn.Conv2d(inputs, outputs, kernel, {stride = stride, padding = kernel // 2, bias = false})
end

local Block = nn.module("BasicBlock", {
  init = function(self, inputs, outputs, stride)
    self.conv1 = conv(inputs, outputs, 3, stride)
    self.bn1 = nn.BatchNorm2d(outputs)
    self.conv2 = conv(outputs, outputs, 3, 1)
    self.bn2 = nn.BatchNorm2d(outputs)
    if stride ~= 1 or inputs ~= outputs then
      self.downsample = nn.Sequential {{"0", conv(inputs, outputs, 1, stride)}, {"1", nn.BatchNorm2d(outputs)}}
    end
  end,
  -- x: (batch, inputs, height, width)
  forward = function(self, x)
    local y = self.bn2(self.conv2(self.bn1(self.conv1(x)):relu()))
    return (y + (self.downsample and self.downsample(x) or x)):relu()
  end,
})

local function stage(count, inputs, outputs, stride)
  local list = {}
  for i = 1, count do
    list[i] = {tostring(i - 1), Block(i == 1 and inputs or outputs, outputs, i == 1 and stride or 1)}
  end
  return nn.Sequential(list)
end

local ResNet = nn.module("ResNet", {
  init = function(self, c)
    self.conv1 = conv(c.channels, c.width, 3, 1)
    self.bn1 = nn.BatchNorm2d(c.width)
    local inputs = c.width
    for i, count in ipairs(blocks[c.depth]) do
      local outputs = c.width << (i - 1)
      self["layer" .. i] = stage(count, inputs, outputs, i == 1 and 1 or 2)
      inputs = outputs
    end
    self.fc = nn.Linear(inputs, c.classes)
  end,
  -- x: (batch, channels, height, width) -> scores: (batch, classes)
  forward = function(self, x)
    x = self.bn1(self.conv1(x)):relu()
    for i = 1, 4 do x = self["layer" .. i](x) end
    return self.fc(x:mean {dim = {3, 4}})
  end,
})

---@param config models.resnet.Config
---@return neap.Module
return function(config) return ResNet(check(config)) end
