local neap = require "neap"
local expect = require "support.expect"
local training = require "support.training"
local nn, optim = neap.nn, neap.optim

-- torch.optim 2.15 in fp64 (one tensor at a time), after 20 steps from these values along these gradients, both of
-- which fp32 holds exactly: {kind, options, values}
local START <const>, STEPS <const> = {0.5, -1.5, 2.0}, 20

local function gradient(t)
  local list = {}
  for i = 1, 3 do list[i] = ((t * 7 + i * 5) % 11 - 5) / 8 end
  return list
end

local cases = {
  {"sgd", {lr = 0.1},
   {0.55, -1.4625, 2.025}},
  {"sgd", {lr = 0.1, momentum = 0.9, dampening = 0.3},
   {0.8881205384760175, -1.444509813958924, 2.226332865778234}},
  {"sgd", {lr = 0.1, momentum = 0.8, weight_decay = 0.05, maximize = true},
   {0.1670057997387152, -1.055460360677955, 1.2868497198136626}},
  {"sgd", {lr = 0.1, momentum = 0.9, nesterov = true, weight_decay = 0.01},
   {0.790127522673258, -1.167478259840673, 1.843379144314047}},
  {"adam", {lr = 0.05, betas = {0.8, 0.95}, eps = 1e-06, weight_decay = 0.1},
   {0.4874824102437342, -1.1057385125968513, 1.6584164868515174}},
  {"adam", {lr = 0.05, amsgrad = true},
   {0.6358922104960487, -1.5127667099627227, 2.0751679541572017}},
  {"adam", {lr = 0.05, betas = {0.7, 0.8}, amsgrad = true, weight_decay = 0.1, maximize = true},
   {0.32539831983062767, -1.2008022629135942, 1.6138021656974268}},
  {"adam", {lr = 0.05, weight_decay = 0.1, decoupled_weight_decay = true},
   {0.5780967871563464, -1.3672125745815045, 1.8774362137382936}},
  {"adamw", {lr = 0.05},
   {0.6298673103461248, -1.4975860274410968, 2.0545339668132856}},
  {"adamw", {lr = 0.05, betas = {0.7, 0.8}, amsgrad = true, weight_decay = 0.2},
   {0.48708681986085467, -1.2257747900304992, 1.66909975135941}},
  {"nadam", {},
   {0.5028514200937599, -1.499618605763394, 2.0014423563682096}},
  {"nadam", {lr = 0.05, betas = {0.8, 0.95}, weight_decay = 0.1, momentum_decay = 0.1, maximize = true},
   {0.3428762505063924, -1.2213235254, 1.6212144168912404}},
  {"nadam", {lr = 0.05, weight_decay = 0.1, decoupled_weight_decay = true},
   {0.5184790085554541, -1.345847445073636, 1.8428177658772282}},
  {"radam", {},
   {0.5009885849214899, -1.5000554964379618, 2.0008764074579224}},
  {"radam", {lr = 0.05, betas = {0.8, 0.95}, weight_decay = 0.1, maximize = true},
   {0.40443622881538793, -1.3611209098060753, 1.7874919963696445}},
  {"radam", {lr = 0.05, betas = {0.8, 0.5}},
   {0.5502878845057397, -1.4923448744860366, 2.033181970859991}},
  {"radam", {lr = 0.05, weight_decay = 0.1, decoupled_weight_decay = true},
   {0.4976454037096573, -1.3593541086319079, 1.849081566062474}},
  {"adamax", {},
   {0.5043601734906242, -1.501012286602351, 2.0027080288040593}},
  {"adamax", {lr = 0.05, betas = {0.8, 0.7}, weight_decay = 0.1, maximize = true},
   {0.3057971089952565, -1.2039190898733854, 1.5788142367076174}},
  {"adadelta", {},
   {0.5031362010992131, -1.4982748000243042, 2.0013611126188913}},
  {"adadelta", {lr = 0.5, rho = 0.7, eps = 0.001, weight_decay = 0.1, maximize = true},
   {0.4164860866994986, -1.3345990049489018, 1.7924039439649335}},
  {"rmsprop", {},
   {0.5921680715373604, -1.5179216762016887, 2.050895876604692}},
  {"rmsprop", {lr = 0.02, alpha = 0.9, centered = true},
   {0.5687626004662847, -1.5064033662055718, 2.0396931055139467}},
  {"rmsprop", {lr = 0.02, alpha = 0.9, centered = true, momentum = 0.7, weight_decay = 0.1, maximize = true},
   {0.18149615677025346, -0.9823102120365066, 1.3292448139316348}},
  {"rmsprop", {lr = 0.02, alpha = 0.9, momentum = 0.7},
   {0.6900344602296894, -1.5417511404362436, 2.0808660657392153}},
  {"adagrad", {},
   {0.5091653717703164, -1.5018875025450453, 2.0050437270475805}},
  {"adagrad", {lr = 0.1, lr_decay = 0.05, weight_decay = 0.1, initial_accumulator_value = 0.25, maximize = true},
   {0.39261813822145103, -1.348869215342202, 1.787106006887543}},
}

local function parameter(dtype)
  local Bag = nn.module("Bag", {
    init = function(self)
      self.w = nn.parameter {shape = {3}, init = neap.tensor(START, {dtype = dtype}), dtype = dtype}
    end,
  })
  return Bag()
end

local function optimizer(case, bag)
  local options = {params = bag}
  for name, v in pairs(case[2]) do options[name] = v end
  return optim[case[1]](options)
end

--- Takes steps first to last with the optimizer alone, or as updates.
local walks = {}

function walks.step(_, opt, dtype, first, last)
  for t = first, last do opt:step {w = neap.tensor(gradient(t), {dtype = dtype})} end
end

function walks.update(bag, opt, dtype, first, last)
  local update = neap.update {
    loss = function(g) return (bag.w * g):sum() end, optimizer = opt, batch_dims = {false},
  }
  for t = first, last do update(neap.tensor(gradient(t), {dtype = dtype})) end
end

describe("Every optimizer", function()
  for dtype, tolerance in pairs {fp64 = 1e-12, fp32 = 1e-6} do
    for walk, take in pairs(walks) do
      it(("steps as PyTorch's in %s, by %s"):format(dtype, walk), function()
        for k, case in ipairs(cases) do
          local bag = parameter(dtype)
          take(bag, optimizer(case, bag), dtype, 1, STEPS)
          for i, v in ipairs(bag.w:totable()) do
            assert.is_true(math.abs(v - case[3][i]) <= tolerance * (1 + math.abs(case[3][i])),
              ("case %d, %s, element %d: %.17g, expected %.17g"):format(k, case[1], i, v, case[3][i]))
          end
        end
      end)
    end
  end

  it("goes on from its state with the same bits", function()
    for k, case in ipairs(cases) do
      local whole, bag = parameter "fp32", parameter "fp32"
      walks.update(whole, optimizer(case, whole), "fp32", 1, STEPS)
      local opt = optimizer(case, bag)
      walks.update(bag, opt, "fp32", 1, 7)
      local again = optimizer(case, bag)
      again:load_state(opt:state())
      walks.update(bag, again, "fp32", 8, STEPS)
      assert.equal(whole.w:tobytes(), bag.w:tobytes(), "case " .. k)
    end
  end)

  it("takes parameters of both dtypes at once", function()
    for _, case in ipairs(cases) do
      local a, b = parameter "fp64", parameter "fp32"
      local both = nn.ModuleDict {a = a, b = b}
      local opt = optimizer(case, both)
      for t = 1, STEPS do
        local g = gradient(t)
        opt:step {["a.w"] = neap.tensor(g, {dtype = "fp64"}), ["b.w"] = neap.tensor(g)}
      end
      for i = 1, 3 do
        expect.near(case[3][i], a.w:totable()[i], 1e-12)
        expect.near(case[3][i], b.w:totable()[i], 4e-6)
      end
    end
  end)

  it("is saved by a trainer, and resumed with the same bits", function()
    local function trainer(case)
      local o = {}
      for name, v in pairs(case[2]) do o[name] = v end
      return training.trainer {optimizer = optim[case[1]](o)}
    end
    for k, case in ipairs(cases) do
      local path, whole, first, second = expect.path(), trainer(case), trainer(case), trainer(case)
      whole:fit {steps = 5}
      first:fit {steps = 3}
      assert(first:save(path))
      assert(second:resume(path))
      second:fit {steps = 5}
      assert.is_true(expect.same_bits(whole.model:state(), second.model:state()), "case " .. k)
      assert.same(whole.optimizer:settings(), second.optimizer:settings())
      expect.remove_files()
    end
  end)
end)
