local neap = require "neap"
local expect = require "support.expect"
local nn, optim = neap.nn, neap.optim

--- One parameter per entry of `values`, under the paths w1, w2, ...
local function parameters(values)
  local Bag = nn.module("Bag", {
    init = function(self)
      for i, v in ipairs(values) do self["w" .. i] = nn.parameter {shape = {1}, init = v} end
    end,
  })
  return Bag()
end

local function grads_of(...)
  local grads = {}
  for i, g in ipairs {...} do grads["w" .. i] = neap.tensor {g} end
  return grads
end

local function value(bag, name)
  return bag[name or "w1"]:totable()[1]
end

--- What PyTorch's optimizers do to one parameter (double arithmetic), for gradients in turn.
local rules = {}

function rules.sgd(w, grads, o)
  local buffer
  for _, g in ipairs(grads) do
    g = g + (o.weight_decay or 0) * w
    if o.momentum then
      buffer = buffer and o.momentum * buffer + g or g
      g = o.nesterov and g + o.momentum * buffer or buffer
    end
    w = w - o.lr * g
  end
  return w
end

local function adam(w, grads, o, decoupled)
  local m, v, b1, b2 = 0, 0, o.betas[1], o.betas[2]
  for t, g in ipairs(grads) do
    if decoupled then w = w - o.lr * o.weight_decay * w else g = g + o.weight_decay * w end
    m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
    w = w - o.lr / (1 - b1 ^ t) * m / (math.sqrt(v) / math.sqrt(1 - b2 ^ t) + 1e-8)
  end
  return w
end

function rules.adam(w, grads, o) return adam(w, grads, o, false) end
function rules.adamw(w, grads, o) return adam(w, grads, o, true) end

function rules.rmsprop(w, grads, o)
  local squares, buffer = 0, 0
  for _, g in ipairs(grads) do
    g = g + (o.weight_decay or 0) * w
    squares = o.alpha * squares + (1 - o.alpha) * g * g
    buffer = (o.momentum or 0) * buffer + g / (math.sqrt(squares) + 1e-8)
    w = w - o.lr * buffer
  end
  return w
end

function rules.adagrad(w, grads, o)
  local sum = 0
  for t, g in ipairs(grads) do
    g = g + (o.weight_decay or 0) * w
    sum = sum + g * g
    w = w - o.lr / (1 + (t - 1) * (o.lr_decay or 0)) * g / (math.sqrt(sum) + 1e-10)
  end
  return w
end

--- Algorithm 2 of "Symbolic Discovery of Optimization Algorithms" (Chen et al. 2023).
function rules.lion(w, grads, o)
  local m = 0
  for _, g in ipairs(grads) do
    local along = o.betas[1] * m + (1 - o.betas[1]) * g
    w = w - o.lr * ((along > 0 and 1 or along < 0 and -1 or 0) + (o.weight_decay or 0) * w)
    m = o.betas[2] * m + (1 - o.betas[2]) * g
  end
  return w
end

describe("An optimizer", function()
  local cases = {
    {"sgd", {lr = 0.1}},
    {"sgd", {lr = 0.1, momentum = 0.9}},
    {"sgd", {lr = 0.1, momentum = 0.9, nesterov = true, weight_decay = 0.01}},
    {"adam", {lr = 0.01, betas = {0.9, 0.99}, weight_decay = 0}},
    {"adam", {lr = 0.01, betas = {0.8, 0.95}, weight_decay = 0.1}},
    {"adamw", {lr = 0.01, betas = {0.9, 0.999}, weight_decay = 0.1}},
    {"rmsprop", {lr = 0.01, alpha = 0.9}},
    {"rmsprop", {lr = 0.01, alpha = 0.99, momentum = 0.8, weight_decay = 0.1}},
    {"adagrad", {lr = 0.1}},
    {"adagrad", {lr = 0.1, lr_decay = 0.5, weight_decay = 0.1}},
    {"lion", {lr = 0.01, betas = {0.9, 0.99}}},
    {"lion", {lr = 0.01, betas = {0.6, 0.7}, weight_decay = 0.1}},
  }
  for i, case in ipairs(cases) do
    it(("steps as %s is published (%d)"):format(case[1], i), function()
      local bag, grads = parameters {1.5}, {0.5, -1, 0.25, 3}
      local options = {params = bag:parameters()}
      for name, v in pairs(case[2]) do options[name] = v end
      local opt = optim[case[1]](options)
      for _, g in ipairs(grads) do opt:step(grads_of(g)) end
      expect.near(rules[case[1]](1.5, grads, case[2]), value(bag), 2e-6)
      assert.equal(4, opt:step_count())
    end)
  end

  it("takes gradients by path, by parameter or as a list", function()
    for _, form in ipairs {"path", "tensor", "list"} do
      local bag = parameters {1, 1}
      local list = bag:parameters()
      local opt = optim.sgd {params = list, lr = 1}
      local a, b = neap.tensor {0.25}, neap.tensor {0.5}
      local grads = {path = {w1 = a, w2 = b}, tensor = {[list[1]] = a, [list[2]] = b}, list = {a, b}}
      opt:step(grads[form])
      expect.near(0.75, value(bag, "w1"))
      expect.near(0.5, value(bag, "w2"))
    end
  end)

  it("takes what nn.value_and_grad gives", function()
    local fc = nn.Linear(1, 1)
    fc:load_state {weight = neap.tensor {{2}}, bias = neap.tensor {1}}
    local opt = optim.sgd {params = fc, lr = 0.1}
    local _, grads = nn.value_and_grad(fc, function(x) return fc(x):square():sum() end)(neap.tensor {{3}})
    opt:step(grads)
    expect.near(2 - 0.1 * 2 * 7 * 3, value(fc, "weight")[1])
    expect.near(1 - 0.1 * 2 * 7, value(fc, "bias"))
  end)

  it("leaves parameters without a gradient alone", function()
    local bag = parameters {1, 1}
    local opt = optim.sgd {params = bag, lr = 1, weight_decay = 0.5}
    opt:step {w2 = neap.tensor {1}}
    assert.equal(1.0, value(bag, "w1"))
    expect.near(-0.5, value(bag, "w2"))
  end)

  it("uses a learning rate that was changed at the next step", function()
    local bag = parameters {1}
    local opt = optim.sgd {params = bag, lr = 1}
    opt.lr = 0.25
    opt:step(grads_of(1))
    expect.near(0.75, value(bag))
    opt.weight_decay = 1
    opt:step(grads_of(0))
    expect.near(0.75 - 0.25 * 0.75, value(bag))
  end)

  it("has groups with settings of their own, and the optimizer's where they have none", function()
    local bag = parameters {1, 1}
    local list = bag:parameters()
    local opt = optim.sgd {lr = 1, groups = {{params = {list[1]}, lr = 0.5}, {params = {list[2]}}}}
    opt:step(grads_of(1, 1))
    expect.near(0.5, value(bag, "w1"))
    expect.near(0, value(bag, "w2"))
    opt.groups[1].lr, opt.lr = 0.25, 2
    opt:step(grads_of(1, 1))
    expect.near(0.25, value(bag, "w1"))
    expect.near(-2, value(bag, "w2"))
  end)

  it("goes on from its state with the same bits", function()
    local bag = parameters {1.5}
    local opt = optim.adam {params = bag, lr = 0.1}
    opt:step(grads_of(0.3))
    local state, weights = opt:state(), bag:state()
    opt:step(grads_of(-0.2))
    local expected = bag:state().w1:tobytes()
    assert.equal(1, state.step)
    expect.near(0.03, state.moments.exp_avg.w1:totable()[1])

    local other_bag = parameters {9}
    other_bag:load_state(weights)
    local other = optim.adam {params = other_bag, lr = 7}
    other:load_state(state)
    assert.equal(0.1, other.lr)
    other:step(grads_of(-0.2))
    assert.equal(expected, other_bag:state().w1:tobytes())
    assert.equal(2, other:step_count())
  end)

  it("of each kind has its own moments and defaults", function()
    local kinds = {
      sgd = {0, {lr = 1}}, adam = {2, {}}, rmsprop = {1, {}}, adagrad = {1, {}}, lion = {1, {}}, nadam = {2, {}},
      radam = {2, {}}, adamax = {2, {}}, adadelta = {2, {}},
    }
    for name, case in pairs(kinds) do
      case[2].params = parameters {1}:parameters()
      local opt, n = optim[name](case[2]), 0
      for _ in pairs(opt:moments()) do n = n + 1 end
      assert.equal(case[1], n)
      opt:step(grads_of(0.5))
      local again = optim[name](case[2])
      again:load_state(opt:state())
      assert.equal(1, again:step_count())
    end
    assert.same({0.9, 0.99}, optim.lion {params = parameters {1}}.betas)
    local opt = optim.rmsprop {params = parameters {1}, lr = 1}
    opt.momentum = 0.5
    expect.fails("INVALID", {"momentum is 0.5", "without momentum"}, function() opt:step(grads_of(1)) end)
  end)

  it("names its moments as PyTorch does, and has those that its settings need", function()
    local function names(opt)
      local list = {}
      for name in pairs(opt:moments()) do list[#list + 1] = name end
      table.sort(list)
      return table.concat(list, " ")
    end
    local function of(kind, o)
      o.params = parameters {1}
      return names(optim[kind](o))
    end
    assert.equal("exp_avg exp_avg_sq max_exp_avg_sq", of("adamw", {amsgrad = true}))
    assert.equal("grad_avg square_avg", of("rmsprop", {centered = true}))
    assert.equal("grad_avg momentum_buffer square_avg", of("rmsprop", {centered = true, momentum = 0.5}))
    assert.equal("exp_avg exp_inf", of("adamax", {}))
    assert.equal("acc_delta square_avg", of("adadelta", {}))
  end)

  it("does in each group what that group asks for", function()
    for kind, case in pairs {adam = "amsgrad", rmsprop = "centered"} do
      local function walk(groups_of)
        local bag = parameters {1, 1}
        local list = bag:parameters()
        local o = groups_of(list)
        o.lr, o.betas = 0.1, kind == "adam" and {0.9, 0.5} or nil
        local opt = optim[kind](o)
        for _, g in ipairs {3, 0.5, -0.25, 0.125} do opt:step(grads_of(g, g)) end
        return value(bag, "w1"), value(bag, "w2")
      end
      local on, off = walk(function(list)
        return {groups = {{params = {list[1]}, [case] = true}, {params = {list[2]}}}}
      end)
      assert.equal(on, (walk(function(list) return {params = list, [case] = true} end)))
      assert.equal(off, (walk(function(list) return {params = list} end)))
      assert.are_not.equal(on, off)
      local plain = optim[kind] {params = parameters {1}, lr = 0.1}
      plain[case] = true
      expect.fails("INVALID", {case .. " true", "without"}, function() plain:step(grads_of(1)) end)
    end
  end)

  it("begins Adagrad's sums where it is told to, in each group", function()
    local bag = parameters {1, 1}
    local list = bag:parameters()
    local opt = optim.adagrad {groups = {{params = {list[1]}, initial_accumulator_value = 3}, {params = {list[2]}}}}
    assert.same({{3}, {0}}, {opt:moments().sum.w1:totable(), opt:moments().sum.w2:totable()})
    local wide = nn.Linear(3000, 2)
    local sum = optim.adagrad {params = wide, initial_accumulator_value = 0.5}:moments().sum.weight
    assert.equal(3000, sum:sum():item())
    assert.equal(0.5, sum:max():item())
  end)

  it("keeps centered squares finite where rounding would take them below zero", function()
    local bag = parameters {1}
    local opt = optim.rmsprop {params = bag, lr = 1e-3, alpha = 0.5, centered = true}
    for _ = 1, 200 do opt:step(grads_of(0.1)) end
    assert.is_true(value(bag) == value(bag))
  end)

  it("clips the gradients of a step, which stay as they were", function()
    local bag = parameters {0, 0}
    local opt, grads = optim.sgd {params = bag, lr = 1}, grads_of(3, -4)
    expect.near(5, opt:step(grads, {clip_norm = 1}))
    expect.near(-0.6, value(bag, "w1"), 1e-5)
    expect.near(0.8, value(bag, "w2"), 1e-5)
    assert.equal(3, grads.w1:item())
    local norm = opt:step(grads, {clip_value = 0.5})
    assert.is_true(norm ~= norm)
    expect.near(-1.1, value(bag, "w1"), 1e-5)
    expect.fails("INVALID", {"clip_norm", "0"}, opt.step, opt, grads, {clip_norm = 0})
    expect.fails("INVALID", {"clip_nrm"}, opt.step, opt, grads, {clip_nrm = 1})
  end)

  it("goes up when it maximizes", function()
    for _, name in ipairs {"sgd", "adam", "nadam", "radam", "adamax", "adadelta", "rmsprop", "adagrad", "lion"} do
      local bag = parameters {1}
      optim[name] {params = bag, lr = 0.1, maximize = true}:step(grads_of(2))
      assert.is_true(value(bag) > 1)
    end
  end)

  it("refuses a state of something else, and changes nothing", function()
    local opt = optim.adam {params = parameters {1}, lr = 0.1}
    local state = opt:state()
    local sgd, two = optim.sgd {params = parameters {1}, lr = 1}, optim.adam {params = parameters {1, 2}}
    expect.fails("INVALID", {"optim.sgd", "adam"}, sgd.load_state, sgd, state)
    expect.fails("INVALID", {"exp_avg", "w2", "nil"}, two.load_state, two, state)
    state = two:state()
    two:step(grads_of(1, 2))
    local before = two:state()
    local function unchanged()
      assert.is_true(expect.same_bits(before.moments.exp_avg, two:moments().exp_avg))
      assert.is_true(expect.same_bits(before.moments.exp_avg_sq, two:moments().exp_avg_sq))
      assert.equal(1, two:step_count())
    end
    for _, name in ipairs {"exp_avg", "exp_avg_sq"} do
      local whole = state.moments[name]
      for _, bad in ipairs {"x", 3, {}, {w1 = "x", w2 = "y"}} do
        state.moments[name] = bad
        expect.fails("INVALID", name, two.load_state, two, state)
        unchanged()
      end
      state.moments[name] = whole
    end
    state.moments.exp_avg_sq.w2:close()
    expect.fails("CLOSED", {"exp_avg_sq", "w2"}, two.load_state, two, state)
    unchanged()
  end)

  it("needs the product of momenta in a state of nadam", function()
    local opt = optim.nadam {params = parameters {1}}
    local state = opt:state()
    state.groups[1].mu_product = nil
    expect.fails("INVALID", {"mu_product", "nil"}, opt.load_state, opt, state)
  end)

  it("takes no groups once it is made without", function()
    local opt = optim.sgd {params = parameters({1}):parameters(), lr = 0.1}
    expect.fails("INVALID", {"no setting", "groups"}, function() opt.groups = {{lr = 3}} end)
  end)

  it("refuses a state whose groups differ in what they take from the optimizer here", function()
    local function made(first, second)
      local list = parameters({1, 2}):parameters()
      return optim.sgd {lr = 0.3, groups = {{params = {list[1]}, lr = first}, {params = {list[2]}, lr = second}}}
    end
    local function rates(opt)
      local list = opt:settings()
      return {list[1].lr, list[2].lr}
    end
    local state, follower = made(0.1, 0.2):state(), made()
    expect.fails("INVALID", {"groups 1 and 2", "lr"}, follower.load_state, follower, state)
    assert.same({0.3, 0.3}, rates(follower))
    local half = made(0.5)
    half:load_state(state)
    assert.same({0.1, 0.2}, rates(half))
    follower:load_state(made(0.1, 0.1):state())
    assert.same({0.1, 0.1}, rates(follower))
    local list = parameters({1, 2}):parameters()
    local split = optim.adam {groups = {{params = {list[1]}}, {params = {list[2]}}}}
    local saved = split:state()
    split:load_state(saved)
    saved.groups[2].betas = {0.9, 0.99}
    expect.fails("INVALID", {"betas"}, split.load_state, split, saved)
  end)

  it("refuses settings that it was not made for, and keeps its own", function()
    local plain = optim.sgd {params = parameters {1}, lr = 0.1}
    local other = optim.sgd {params = parameters {1}, lr = 0.5, momentum = 0.9}
    expect.fails("INVALID", "momentum", plain.load_state, plain, other:state())
    assert.same({0.1, 0}, {plain.lr, plain.momentum})
    plain:step(grads_of(1))
  end)
end)

describe("An update that clips", function()
  --- One step of sgd with these gradients.
  local function stepped(options, ...)
    local bag, x = parameters {0, 0}, neap.tensor {...}
    local u = {
      loss = function(v) return (bag.w1 * v:narrow(1, 1, 1) + bag.w2 * v:narrow(1, 2, 1)):sum() end,
      optimizer = optim.sgd {params = bag, lr = 1}, batch_dims = {false},
    }
    for name, v in pairs(options) do u[name] = v end
    neap.update(u)(x)
    return bag
  end

  it("holds each element of a gradient within a value", function()
    local bag = stepped({clip_value = 0.5}, 3, -0.25)
    expect.near(-0.5, value(bag, "w1"))
    expect.near(0.25, value(bag, "w2"))
  end)

  it("does so after the norm", function()
    local bag = stepped({clip_norm = 1, clip_value = 0.7}, 3, -4)
    expect.near(-0.6, value(bag, "w1"), 1e-5)
    expect.near(0.7, value(bag, "w2"), 1e-5)
  end)

  it("refuses values that are none", function()
    expect.fails("INVALID", {"clip_value", "0"}, stepped, {clip_value = 0}, 1, 1)
  end)
end)

describe("Bad options of optimizers", function()
  local function params() return parameters {1}:parameters() end

  it("are named with what was expected", function()
    expect.fails("INVALID", {"optim.adamw", "learning_rate", "lr"}, function()
      optim.adamw {params = params(), learning_rate = 1}
    end)
    expect.fails("INVALID", {"optim.sgd", "lr", "missing"}, function() optim.sgd {params = params()} end)
    expect.fails("INVALID", {"optim.sgd", "lr", "-1", "at least 0"}, optim.sgd, {params = params(), lr = -1})
    expect.fails("INVALID", {"optim.adam", "lr", "nan"}, optim.adam, {params = params(), lr = 0 / 0})
    expect.fails("INVALID", {"optim.adam", "lr", "infinite"}, optim.adam, {params = params(), lr = math.huge})
    expect.fails("INVALID", {"nesterov", "momentum"}, function()
      optim.sgd {params = params(), lr = 1, nesterov = true}
    end)
    expect.fails("INVALID", {"nesterov", "dampening"}, function()
      optim.sgd {params = params(), lr = 1, momentum = 0.9, dampening = 0.1, nesterov = true}
    end)
    expect.fails("INVALID", {"optim.adadelta", "rho", "1.5"}, optim.adadelta, {params = params(), rho = 1.5})
    expect.fails("INVALID", {"optim.adagrad", "amsgrad"}, optim.adagrad, {params = params(), amsgrad = true})
    expect.fails("INVALID", {"betas[2]", "1"}, function() optim.adam {params = params(), betas = {0.9, 1}} end)
    expect.fails("INVALID", {"betas", "3"}, function() optim.adam {params = params(), betas = {0.9, 0.9, 0.9}} end)
    expect.fails("INVALID", {"params", "groups"}, function()
      optim.sgd {params = params(), lr = 1, groups = {{params = params()}}}
    end)
  end)

  it("are found among the parameters, too", function()
    expect.fails("INVALID", {"params[1]", "parameter"}, function() optim.sgd {params = {neap.zeros(1)}, lr = 1} end)
    expect.fails("INVALID", {"params", "empty"}, function() optim.sgd {params = {}, lr = 1} end)
    expect.fails("INVALID", {"twice", "w1"}, function()
      local list = params()
      optim.sgd {params = {list[1], list[1]}, lr = 1}
    end)
  end)

  it("are found when they are set later", function()
    local opt = optim.sgd {params = params(), lr = 1}
    expect.fails("INVALID", {"learning_rate"}, function() opt.learning_rate = 3 end)
    opt.lr = -3
    expect.fails("INVALID", {"lr", "-3"}, function() opt:step(grads_of(1)) end)
  end)

  it("make no step without gradients or parameters", function()
    local opt = optim.sgd {params = params(), lr = 1}
    expect.fails("INVALID", {"w1"}, function() opt:step {other = neap.zeros(1)} end)
    expect.fails("INVALID", {"2 gradients", "1 parameters"}, function() opt:step {neap.zeros(1), neap.zeros(1)} end)
    expect.fails("INVALID", {"no parameters"}, function() optim.sgd {lr = 1}:step(grads_of(1)) end)
  end)
end)
