--- A generator of square images and a critic that tells them from real ones (after Radford et al. 2016, with
--- enlarging and convolution where they have transposed convolutions, which leave a checkerboard).
---   local gan = require "models.gan" {latent = 32, channels = 1, size = 28, width = 16}
---   local images = gan.generator(neap.randn(8, 32))      -- (8, 1, 28, 28) in (0, 1)
---   local scores = gan.critic(images)                    -- (8): above 0 for what looks real
local nn = require "neap".nn

---@class models.gan.Config
---@field latent integer numbers that an image is made of
---@field channels integer of the images
---@field size integer their height and width, a multiple of 4
---@field width integer channels of the layers at full size

local function check(config)
  for _, name in ipairs {"latent", "channels", "size", "width"} do
    local v = config[name]
    if math.type(v) ~= "integer" or v < 1 then
      error(("models.gan: %s is %s, expected an integer of at least 1"):format(name, tostring(v)), 3)
    end
  end
  if config.size % 4 ~= 0 then
    error(("models.gan: size is %d, expected a multiple of 4, since it is doubled twice"):format(config.size), 3)
  end
  return config
end

local Generator = nn.module("Generator", {
  init = function(self, c)
    self.channels, self.side = 4 * c.width, c.size // 4
    self.fc = nn.Linear(c.latent, self.channels * self.side * self.side)
    self.bn0 = nn.BatchNorm2d(4 * c.width)
    self.conv1 = nn.Conv2d(4 * c.width, 2 * c.width, 3, {padding = 1, bias = false})
    self.bn1 = nn.BatchNorm2d(2 * c.width)
    self.conv2 = nn.Conv2d(2 * c.width, c.width, 3, {padding = 1, bias = false})
    self.bn2 = nn.BatchNorm2d(c.width)
    self.conv3 = nn.Conv2d(c.width, c.channels, 3, {padding = 1})
  end,
  -- z: (batch, latent) -> (batch, channels, size, size)
  forward = function(self, z)
    local x = self.fc(z):reshape {z.shape[1], self.channels, self.side, self.side}
    x = self.bn0(x):relu():upsample_nearest2d {scale_factor = 2}
    x = self.bn1(self.conv1(x)):relu():upsample_nearest2d {scale_factor = 2}
    return self.conv3(self.bn2(self.conv2(x)):relu()):sigmoid()
  end,
})

local Critic = nn.module("Critic", {
  init = function(self, c)
    self.conv1 = nn.Conv2d(c.channels, 2 * c.width, 4, {stride = 2, padding = 1})
    self.conv2 = nn.Conv2d(2 * c.width, 4 * c.width, 4, {stride = 2, padding = 1, bias = false})
    self.bn2 = nn.BatchNorm2d(4 * c.width)
    self.fc = nn.Linear(4 * c.width * (c.size // 4) * (c.size // 4), 1)
  end,
  -- x: (batch, channels, size, size) -> (batch)
  forward = function(self, x)
    x = self.conv1(x):leaky_relu {negative_slope = 0.2}
    x = self.bn2(self.conv2(x)):leaky_relu {negative_slope = 0.2}
    return self.fc(x:flatten {start_dim = 2}):reshape {x.shape[1]}
  end,
})

local GAN = nn.module("GAN", {
  init = function(self, c)
    self.generator = Generator(c)
    self.critic = Critic(c)
  end,
  -- z: (batch, latent) -> what the critic says of the generator's images
  forward = function(self, z) return self.critic(self.generator(z)) end,
})

---@param config models.gan.Config
---@return neap.Module
return function(config) return GAN(check(config)) end
