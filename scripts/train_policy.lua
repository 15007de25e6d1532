--- Learns to balance a pole on a cart: an actor-critic, by proximal policy optimization (Schulman et al. 2017),
--- with many carts stepped side by side in Lua. Done when 100 fresh episodes return at least --target on average.
---
---   build/neap scripts/train_policy.lua [--seed N] [--steps N] [--target R] [--carts N] [--rate R]
--- Exit codes: 0, 1 for errors and when --steps did not suffice.
package.path = "./?.lua;" .. package.path
local neap = require "neap"
local actor_critic = require "models.actor_critic"

local from = require "scripts.options"
local options = from.read {
  seed = 1, steps = from.at_least(1, 1000000), target = 475.0, carts = from.at_least(1, 32), rate = 1e-3,
}
local random = neap.data.random

local HORIZON <const> = 64       -- steps of every cart between two rounds of updates
local PASSES <const>, PART <const> = 6, 256 -- over what was seen, in parts of so many steps
local DISCOUNT <const>, TRACE <const> = 0.99, 0.95
local REWARD <const> = 0.05      -- of a step: what is to come is then worth 5 at most
local CLIP <const>, ENTROPY <const> = 0.2, 0.005
local EPISODES <const> = 100     -- of a mean

-- Random numbers --------------------------------------------------------------------------------------

--- Numbers in [0, 1), by (seed, name) alone.
local function stream(seed, name)
  local key, n = random.hash(name, seed), 0
  return function()
    n = n + 1
    return (random.at(key, n) >> 11) * 0x1p-53
  end
end

-- The cart ---------------------------------------------------------------------------------------------

-- Barto, Sutton and Anderson (1983), with the sizes and limits of OpenAI Gym's CartPole-v1.
local GRAVITY <const>, FORCE <const>, TICK <const> = 9.8, 10.0, 0.02
local POLE <const>, HALF <const>, TOTAL <const> = 0.1, 0.5, 1.1 -- kg of the pole, m of half of it, kg with the cart
local FAR <const>, TILTED <const>, LONGEST <const> = 2.4, 12 * math.pi / 180, 500

local function reset(cart, draw)
  for i = 1, 4 do cart[i] = draw() * 0.1 - 0.05 end
  cart.age = 0
end

--- One tick with the cart pushed left (0) or right (1): whether the pole fell, whether time was up.
local function push(cart, action)
  local x, speed, angle, spin = cart[1], cart[2], cart[3], cart[4]
  local sin, cos = math.sin(angle), math.cos(angle)
  local push_force = ((action == 1 and FORCE or -FORCE) + POLE * HALF * spin * spin * sin) / TOTAL
  local turn = (GRAVITY * sin - cos * push_force) / (HALF * (4 / 3 - POLE * cos * cos / TOTAL))
  local pull = push_force - POLE * HALF * turn * cos / TOTAL
  cart[1], cart[2] = x + TICK * speed, speed + TICK * pull
  cart[3], cart[4] = angle + TICK * spin, spin + TICK * turn
  cart.age = cart.age + 1
  return math.abs(cart[1]) > FAR or math.abs(cart[3]) > TILTED, cart.age >= LONGEST
end

local function new_carts(n, draw)
  local carts = {}
  for i = 1, n do
    carts[i] = {}
    reset(carts[i], draw)
  end
  return carts
end

-- The model --------------------------------------------------------------------------------------------

neap.manual_seed(options.seed)
local model = actor_critic {observations = 4, actions = 2}

--- For each cart the logarithm of each action's probability, and the value. Speeds are large beside places, so
--- observations are brought near 1.
local scale = neap.tensor {1 / FAR, 0.5, 1 / TILTED, 0.5}
local look = neap.compile(function(seen) -- seen: (carts, 4)
  local scores, values = model(seen * scale)
  return scores:log_softmax {dim = 2}, values
end)

-- seen: (batch, 4), actions: (batch, 1) of int64, the others: (batch)
local function loss(seen, actions, old, gains, returns)
  local scores, values = model(seen * scale)
  local logs = scores:log_softmax {dim = 2}
  local ratio = (logs:gather(actions, {dim = 2}):reshape {old.shape[1]} - old):exp()
  local kept = ratio:clamp {min = 1 - CLIP, max = 1 + CLIP}
  local entropy = -(logs:exp() * logs):sum {dim = 2}:mean()
  return 0.5 * (values - returns):pow(2):mean() - (ratio * gains):minimum(kept * gains):mean() - ENTROPY * entropy
end

local update = neap.update {
  loss = loss, clip_norm = 0.5,
  optimizer = neap.optim.adam {params = model:parameters(), lr = options.rate, eps = 1e-5},
}

-- Seeing -----------------------------------------------------------------------------------------------

--- Steps every cart HORIZON times: lists of what was seen, done and known, step by step, cart by cart. The value
--- of what comes after a step is 0 where the pole fell, and what the critic says where only the time was up.
local function roll(carts, draw, finished)
  local seen, actions, logs, values, nexts, last = {}, {}, {}, {}, {}, {}
  local late = {} -- {step, cart's place}: time was up there
  local n = #carts
  for t = 0, HORIZON - 1 do
    local known, worth = look(neap.tensor(carts))
    known, worth = known:totable(), worth:totable()
    for i, cart in ipairs(carts) do
      local k = t * n + i
      local action = draw() < math.exp(known[i][1]) and 0 or 1
      seen[k], actions[k], logs[k] = {table.unpack(cart, 1, 4)}, {action}, known[i][action + 1]
      values[k] = worth[i]
      if t > 0 then nexts[k - n] = nexts[k - n] or worth[i] end
      local fell, up = push(cart, action)
      if fell or up then
        last[k], nexts[k] = true, fell and 0.0 or nil
        if not fell then late[#late + 1] = {k, {table.unpack(cart, 1, 4)}} end
        finished[#finished + 1] = cart.age
        reset(cart, draw)
      end
    end
  end
  return {seen = seen, actions = actions, logs = logs, values = values, nexts = nexts, last = last, late = late}
end

--- Values of the states after the last steps, and of those which time cut off.
local function look_ahead(carts, r)
  local n, count = #carts, #r.seen
  local _, worth = look(neap.tensor(carts))
  worth = worth:totable()
  for i = 1, n do
    local k = count - n + i
    r.nexts[k] = r.nexts[k] or worth[i]
  end
  for _, cut in ipairs(r.late) do
    local _, value = look(neap.tensor {cut[2]})
    r.nexts[cut[1]] = value:item()
  end
end

--- How much better each step went than its value (generalized advantages, Schulman et al. 2016), and returns.
local function gains_of(r, n)
  local gains, returns = {}, {}
  for k = #r.seen, 1, -1 do
    local surprise = REWARD + DISCOUNT * r.nexts[k] - r.values[k]
    local later = not r.last[k] and gains[k + n] or 0
    gains[k] = surprise + DISCOUNT * TRACE * later
    returns[k] = gains[k] + r.values[k]
  end
  return gains, returns
end

-- Learning ---------------------------------------------------------------------------------------------

--- All steps as tensors, gains with mean 0 and variance 1.
local function as_tensors(r, gains, returns)
  local g = neap.tensor(gains)
  local centred = g - g:mean()
  return {
    neap.tensor(r.seen), neap.tensor(r.actions, {dtype = "int64"}), neap.tensor(r.logs),
    centred / (centred:pow(2):mean():sqrt() + 1e-8), neap.tensor(returns),
  }
end

--- Goes over the steps PASSES times, each time in another order. Returns the mean loss.
local function learn(columns, count, round)
  local sum, n = 0, 0
  for pass = 1, PASSES do
    local order = random.permutation(count, random.key(options.seed, round, pass))
    for i = 1, count do order[i] = order[i] - 1 end
    local places = neap.tensor(order, {dtype = "int64"})
    for first = 1, count, PART do
      local part, batch = places:narrow(1, first, math.min(PART, count - first + 1)), {}
      for i, column in ipairs(columns) do batch[i] = column:index_select(part, {dim = 1}) end
      sum, n = sum + update(table.unpack(batch)), n + 1
    end
  end
  return sum / n
end

local function mean_of_last(list, n)
  if #list < n then return nil end
  local sum = 0
  for i = #list - n + 1, #list do sum = sum + list[i] end
  return sum / n
end

--- The mean return of EPISODES fresh episodes, one a cart, each action the likelier one.
local function evaluate(draw)
  local carts, running, sum = new_carts(EPISODES, draw), EPISODES, 0
  while running > 0 do
    local known = look(neap.tensor(carts)):totable()
    for i, cart in ipairs(carts) do
      if not cart.done then
        local fell, up = push(cart, known[i][1] >= known[i][2] and 0 or 1)
        if fell or up then
          cart.done, running, sum = true, running - 1, sum + cart.age
          for k = 1, 4 do cart[k] = 0.0 end
        end
      end
    end
  end
  return sum / EPISODES
end

local function train()
  local draw, fresh = stream(options.seed, "carts"), stream(options.seed, "evaluation")
  local carts, finished, started = new_carts(options.carts, draw), {}, neap.clock()
  local round, per_round = 0, options.carts * HORIZON
  while round * per_round < options.steps do
    local r = roll(carts, draw, finished)
    look_ahead(carts, r)
    local value = learn(as_tensors(r, gains_of(r, options.carts)), per_round, round)
    round = round + 1
    update.optimizer.lr = options.rate * math.max(0.05, 1 - round * per_round / options.steps)
    local mean = mean_of_last(finished, EPISODES)
    if round % 5 == 0 or mean and mean >= options.target then
      print(("%8d steps, %5.1f s, %5d episodes, mean return of the last %d %s, loss %.4f"):format(
        round * per_round, neap.clock() - started, #finished, EPISODES,
        mean and ("%.1f"):format(mean) or "not known yet", value))
    end
    if mean and mean >= options.target then
      local result = evaluate(fresh)
      print(("mean return %.1f over %d fresh episodes"):format(result, EPISODES))
      if result >= options.target then return true end
    end
  end
  return false
end

if not train() then
  print(("%d steps did not bring a mean return of %.1f"):format(options.steps, options.target))
  os.exit(1, true)
end
