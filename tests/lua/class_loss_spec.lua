local neap = require "neap"
local expect = require "support.expect"
local nn = neap.nn

local function f64(t) return neap.tensor(t, {dtype = "float64"}) end
local function i64(t) return neap.tensor(t, {dtype = "int64"}) end

-- Numbers of torch.nn.functional.
describe("Losses over classes", function()
  local x = f64 {{0.2, -1.0, 0.5}, {1.5, 0.3, -0.7}, {-0.4, 0.9, 0.1}, {0.6, 0.6, -2.0}}
  local t, w = i64 {2, 0, 1, 1}, f64 {0.5, 2.0, 1.25}
  local p = f64 {{0.2, 0.3, 0.5}, {1, 0, 0}, {0.1, 0.8, 0.1}, {0.25, 0.25, 0.5}}

  local function check(value, slopes, loss)
    local got, g = neap.value_and_grad(function(a) return loss(a):sum() end)(x)
    expect.near(value, got:item(), 1e-12)
    if slopes then expect.near_all(slopes, g[1], 1e-12) end
  end

  it("weigh the classes of labels, and divide by what the labels weigh", function()
    check(0.6195185912009253, {
      0.08200186972865381, 0.024698488528248942, -0.10670035825690272, -0.025372468135529604, 0.01854876049149536,
      0.00682370764403424, 0.05505303884101435, -0.145820154994875, 0.09076711615386067, 0.1676857337477887,
      -0.18014035320873303, 0.01245461946094435,
    }, function(a) return neap.cross_entropy(a, t, w) end)
    check(-0.8333333333333334, {0, 0, 0, -1 / 9, 0, 0, 0, -4 / 9, 0, 0, -4 / 9, 0},
          function(a) return neap.nll_loss(a, t, w, {ignore_index = 2}) end)
  end)

  it("leave out ignored labels, smoothed or not", function()
    check(0.5806850268406024, nil, function(a) return neap.cross_entropy(a, t, w, {ignore_index = 1}) end)
    check(1.0993285624108542, {
      0.24086328625129105, -0.033133537692896335, -0.20772974855839468, 0.06483259824001252, -0.025914119658375673,
      -0.03891847858163687, 0, 0, 0, 0, 0, 0,
    }, function(a) return neap.cross_entropy(a, t, w, {ignore_index = 1, label_smoothing = 0.3}) end)
    local each = neap.cross_entropy(x, t, w, {ignore_index = 1, label_smoothing = 0.3, reduction = "none"})
    expect.near_all({1.158696158642297, 0.7651288255766979, 0, 0}, each, 1e-12)
    local places = neap.arange(0, 24, 1, {dtype = "float64"}):reshape(2, 3, 4):sin()
    local labels = i64 {{0, 1, 2, -100}, {2, 2, -100, 1}}
    expect.near(1.3741883437643307,
                neap.cross_entropy(places, labels, w, {ignore_index = -100, label_smoothing = 0.2}):item(), 1e-12)
  end)

  it("take probabilities in place of labels", function()
    check(1.0782446886971213, {
      0.044302150187951875, -0.04659673819251371, 0.002294588004561865, -0.07294584588964761, 0.05332768641304916,
      0.01961815947659844, 0.01456937166697906, -0.05480823640256641, 0.04023886473558736, 0.05802412113122313,
      0.05802412113122313, -0.11604824226244626,
    }, function(a) return neap.cross_entropy(a, p) end)
    check(1.4559158981805107, {
      0.09757641620595991, -0.1142453692353035, 0.016668953029343587, -0.014860528053214054, 0.0139967530208366,
      0.0008637750323774366, 0.05274157602970477, -0.1265738538700873, 0.07383227784038257, 0.11836348474736225,
      0.02148848474736223, -0.13985196949472448,
    }, function(a) return neap.cross_entropy(a, p, w, {label_smoothing = 0.1}) end)
    check(5.663379164859424, nil, function(a) return neap.cross_entropy(a, p, w, {reduction = "sum"}) end)
    expect.near(1.8243179281608348, neap.cross_entropy(x[1], p[1], w):item(), 1e-12)
  end)

  it("are layers with the same options", function()
    local loss = nn.CrossEntropyLoss {weight = w, ignore_index = 1, label_smoothing = 0.3}
    expect.near(1.0993285624108542, loss(x, t):item(), 1e-12)
    expect.near(-0.8333333333333334, nn.NLLLoss {weight = w, ignore_index = 2}(x, t):item(), 1e-12)
    expect.near(1.0782446886971213, nn.CrossEntropyLoss()(x, p):item(), 1e-12)
    assert.same({4}, nn.CrossEntropyLoss {reduction = "none"}(x, t).shape)
    expect.fails("INVALID", {"nn.NLLLoss", "weight"}, nn.NLLLoss, {weight = 2})
  end)

  it("say what does not fit", function()
    expect.fails("SHAPE", {"cross_entropy", "weight", "[2]", "fp64 [3]"}, neap.cross_entropy, x, t, f64 {1, 2})
    expect.fails("DTYPE", {"nll_loss", "weight is fp32"}, neap.nll_loss, x, t, neap.ones(3))
    expect.fails("SHAPE", {"cross_entropy", "[4, 3]", "[3]"}, neap.cross_entropy, x, p[1])
    expect.fails("DTYPE", {"cross_entropy", "fp32", "probabilities"}, neap.cross_entropy, x, p:to("float32"))
    expect.fails("INVALID", {"ignore_index", "1", "no indices"}, neap.cross_entropy, x, p, {ignore_index = 1})
    expect.fails("DTYPE", {"nll_loss", "fp64", "class indices"}, neap.nll_loss, x, p)
    expect.fails("RANGE", {"7"}, neap.cross_entropy, x, i64 {2, 0, 7, 1}, w)
  end)

  it("give the same bits in micro-batches, whatever share of the weight each has", function()
    local function train(loss, target, micro)
      neap.manual_seed(4)
      local layer = nn.Linear(3, 3)
      layer:parameters()
      local update = neap.update {
        loss = function(a, b) return loss(layer(a), b) end, grain = 16,
        optimizer = neap.optim.sgd {params = layer, lr = 0.1},
      }
      update:start_with(micro)
      local last
      for _ = 1, 3 do last = update(neap.randn(64, 3), target) end
      assert.equal("bits", update:plan().exact)
      return layer:state(), last
    end
    local labels = {}
    for i = 1, 64 do labels[i] = i <= 16 and 1 or i % 3 end
    local weight = neap.tensor {0.5, 2, 1.25}
    for _, case in ipairs {
      {nn.CrossEntropyLoss {weight = weight, ignore_index = 1, label_smoothing = 0.1}, i64(labels)},
      {nn.CrossEntropyLoss {weight = weight}, neap.one_hot(i64(labels), {num_classes = 3}):to("float32")},
    } do
      local whole, a = train(case[1], case[2])
      local cut, b = train(case[1], case[2], 16)
      assert.is_true(expect.same_bits(whole, cut))
      assert.equal(a, b)
    end
  end)
end)
