--- An actor and a critic over the same observations, without layers in common: each is a perceptron with tanh.
---   require "models.actor_critic" {observations = 4, actions = 2, hidden = {64, 64}}
local nn = require "neap".nn

---@class models.actor_critic.Config
---@field observations integer numbers in an observation
---@field actions integer to choose from
---@field hidden? integer[] widths of the hidden layers of both; {64, 64} unless said

local function check_size(name, v)
  if math.type(v) ~= "integer" or v < 1 then
    error(("models.actor_critic: %s is %s, expected an integer of at least 1"):format(name, tostring(v)), 4)
  end
end

local function check(config)
  check_size("observations", config.observations)
  check_size("actions", config.actions)
  local hidden = config.hidden or {64, 64}
  if type(hidden) ~= "table" or #hidden == 0 then
    error("models.actor_critic: hidden must be a list of at least one number, the widths of the hidden layers", 3)
  end
  for i, width in ipairs(hidden) do check_size(("hidden[%d]"):format(i), width) end
  return config.observations, config.actions, hidden
end

local function perceptron(inputs, hidden, outputs)
  local entries = {}
  for i, width in ipairs(hidden) do
    entries[#entries + 1] = {"fc" .. i, nn.Linear(hidden[i - 1] or inputs, width)}
    entries[#entries + 1] = {"tanh" .. i, nn.Tanh()}
  end
  entries[#entries + 1] = {"out", nn.Linear(hidden[#hidden], outputs)}
  return nn.Sequential(entries)
end

local ActorCritic = nn.module("ActorCritic", {
  init = function(self, observations, actions, hidden)
    self.actor = perceptron(observations, hidden, actions)
    self.critic = perceptron(observations, hidden, 1)
  end,
  -- x: (batch, observations) -> scores: (batch, actions), values: (batch)
  forward = function(self, x)
    return self.actor(x), self.critic(x):reshape {x.shape[1]}
  end,
})

---@param config models.actor_critic.Config
---@return neap.Module
return function(config) return ActorCritic(check(config)) end
