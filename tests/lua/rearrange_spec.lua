local neap = require "neap"
local expect = require "support.expect"
local nn = neap.nn

local function index(list) return neap.tensor(list, {dtype = "int64"}) end

--- f(rate * i + shift) for i = 0, 1, ..., in fp64.
local function wave(shape, f, rate, shift)
  local count = 1
  for _, n in ipairs(shape) do count = count * n end
  local i = neap.arange(count, {dtype = "fp64"})
  return neap[f](i * rate + shift):reshape {shape = shape}
end

--- The sum of x times cos(rate i), which each element of x enters in its own way.
local function checksum(x, rate) return (x * wave(x.shape, "cos", rate, 0)):sum() end

-- Checksums of values and of gradients by torch and torch.nn.functional in double precision.
describe("Shapes, indices, windows and products", function()
  local cases = {
    {function(x) return x:diagonal {offset = 1, dim1 = 1, dim2 = 3} end, {{3, 2, 4}},
      -0.0369770180664, {-0.983283685861}},
    {function(x) return x:diag_embed {offset = -1, dim1 = 1, dim2 = 3} end, {{2, 3}},
      1.32766656074, {0.82466081817}},
    {function(x) return x:diag(1) end, {{4}},
      0.366522343207, {0.463230311686}},
    {function(x) return x:trace() end, {{3, 4}},
      0.0153326175744, {2.88403440718}},
    {function(x) return x:movedim({1, 2}, {-1, 1}) end, {{2, 3, 4}},
      7.63448514243, {0.0630672195368}},
    {function(x) return x:rot90 {k = 3, dims = {2, 3}} end, {{2, 3, 4}},
      0.86126616824, {0.299110593053}},
    {function(x) return x:pad {pad = {2, 1, 1, 2}, mode = "reflect"} end, {{1, 2, 3, 4}},
      -3.85281085801, {0.79075291361}},
    {function(x) return x:pad {pad = {2, 1, 1, 3}, mode = "replicate"} end, {{1, 2, 3, 4}},
      24.1572848542, {1.06476314056}},
    {function(x) return x:pad {pad = {2, 1, 3, 1}, mode = "circular"} end, {{1, 2, 3, 4}},
      11.6897938803, {0.530594843768}},
    {function(x) return x:pad {pad = {-1, 2, 1, -2}, value = 0.5} end, {{2, 3, 4}},
      -2.94709294818, {-2.48347053101}},
    {function(x, y) return x:scatter(index {{0, 4, 1}, {3, 2, 2}}, y, {dim = 2}) end, {{2, 5}, {2, 3}},
      0.379141017317, {0.521648342412, 0.762295283526}},
    {function(x) return x:scatter(index {{0, 4, 1}, {3, 0, 2}}, {dim = 2, value = 0.25}) end, {{2, 5}},
      0.425893694967, {0.727508911692}},
    {function(x, y) return x:index_add(index {0, 4, 0}, y, {dim = 2, alpha = -0.5}) end, {{2, 5}, {2, 3}},
      0.744133093876, {-0.0210811266112, 0.131856082202}},
    {function(x, y) return x:index_copy(index {3, 1}, y, {dim = 2}) end, {{2, 5}, {2, 2}},
      -0.517457859313, {-0.536625848814, -1.71982566506}},
    {function(x) return x:index_fill(index {3, 1}, {dim = 2, value = 2}) end, {{2, 5}},
      2.56256890856, {-0.536625848814}},
    {function(x) return x:take_along_dim(index {{0}, {2}, {1}}, {dim = 2}) end, {{3, 4}},
      0.359594992643, {0.886403982606}},
    {function(x) return x:unfold {kernel_size = {3, 2}, padding = {1, 0}, stride = {2, 1}} end, {{2, 2, 5, 4}},
      -0.652436834078, {1.35621854656}},
    {function(x) return x:fold {output_size = {4, 5}, kernel_size = 2, dilation = 2} end, {{2, 8, 6}},
      3.12401821161, {15.6442236798}},
    {function(x) return x:max_pool1d {kernel_size = 3, stride = 2, padding = 1} end, {{2, 2, 8}},
      0.932912934992, {0.565522679297}},
    {function(x) return x:avg_pool1d {kernel_size = 3, padding = 1, count_include_pad = false} end, {{2, 2, 8}},
      0.287694931326, {0.184426472741}},
    {function(x) return x:max_pool3d {kernel_size = {2, 3, 2}, stride = {1, 2, 2}, padding = {1, 1, 0}} end,
      {{1, 2, 4, 5, 4}},
      -2.20214059231, {-0.274656865171}},
    {function(x) return x:avg_pool3d {kernel_size = 2, padding = 1, ceil_mode = true} end, {{1, 2, 4, 5, 4}},
      -0.0712375899025, {-0.416399842285}},
    {function(x) return x:adaptive_max_pool2d {output_size = {3, 4}} end, {{1, 2, 7, 5}},
      1.13345709917, {-0.031835339476}},
    {function(x) return x:adaptive_avg_pool1d {output_size = 3} end, {{1, 2, 7}},
      0.0193592321352, {-0.257190143947}},
    {function(x, y, z)
      return neap.conv_transpose1d(x, y, z, {stride = 2, padding = 1, output_padding = 1, groups = 2})
    end,
      {{2, 4, 5}, {4, 3, 3}, {6}},
      3.56087714246, {0.0947198014418, -17.9159751361, 1.2491577234}},
    {function(x, y, z)
      return neap.conv3d(x, y, z, {stride = {1, 2, 1}, padding = {1, 0, 1}, dilation = {2, 1, 1}, groups = 2})
    end,
      {{2, 4, 5, 4, 3}, {6, 2, 2, 3, 2}, {6}},
      1.46388978124, {-1.0599572361, -4.03747901787, -2.40033682821}},
    {function(x) return x:interpolate {scale_factor = 1.5, mode = "bilinear"} end, {{1, 2, 4, 5}},
      1.04240472233, {30.2616421316}},
    {function(x) return x:interpolate {size = 7, mode = "linear", align_corners = true} end, {{1, 2, 4}},
      5.15690206703, {1.69991765145}},
    {function(x) return x:interpolate {scale_factor = 1.7, mode = "linear"} end, {{1, 2, 5}},
      5.04808160885, {3.48068045329}},
    {function(x) return x:interpolate {scale_factor = 2.3} end, {{1, 2, 5}},
      -3.98638280913, {0.778932716807}},
    {function(x) return x:interpolate {scale_factor = 0.6} end, {{1, 2, 5, 7}},
      1.16400481575, {0.348571983222}},
    {function(x) return x:interpolate {size = {3, 2}, mode = "area"} end, {{1, 2, 7, 5}},
      0.0302771306459, {-0.164183220522}},
    {function(x) return x:pixel_shuffle(2) end, {{1, 8, 2, 3}},
      -0.703523005711, {-0.687998568332}},
    {function(x) return x:pixel_unshuffle(2) end, {{1, 2, 4, 6}},
      0.615038365006, {0.281661110198}},
    {function(x) return x:channel_shuffle(3) end, {{1, 6, 2, 2}},
      -0.816124234508, {1.240109455}},
    {function(x, y, z) return neap.addmm(x, y, z, {beta = 0.5, alpha = 2}) end, {{4}, {2, 3}, {3, 4}},
      2.22239569746, {-0.102787442754, 2.15751526406, -4.44372620803}},
    {function(x, y, z) return neap.baddbmm(x, y, z) end, {{2, 4}, {5, 2, 3}, {5, 3, 4}},
      1.03402152859, {3.32051762302, 2.87041221122, -3.91451768706}},
    {function(x, y) return x:kron(y) end, {{2, 3}, {3, 2}},
      0.287779003063, {0.020577091823, 1.07839772737}},
    {function(x, y) return x:cross(y) end, {{4, 3}, {4, 3}},
      0.23348074103, {0.105603058112, -1.19800620461}},
    {function(x, y) return neap.tensordot(x, y, {dims = {{1, 3}, {2, 1}}}) end, {{2, 3, 4}, {4, 2, 5}},
      0.713725228181, {1.4736899249, 3.48822050155}},
    {function(x, y) return x:outer(y) end, {{3}, {4}},
      -0.820074668096, {-0.66047310755, -1.12664521051}},
    {function(x, y) return neap.embedding_bag(index {{0, 2, 2}, {1, 1, 0}}, x, y, {mode = "sum"}) end, {{3, 4}, {2, 3}},
      1.19474534639, {2.05120387647, 0.174514459939}},
    {function(x) return neap.embedding_bag(index {{0, 2, 2}, {1, 1, 0}}, x, {mode = "max"}) end, {{3, 4}},
      -0.610484889431, {-2.42229769639}},
  }

  it("have PyTorch's values and gradients", function()
    for i, case in ipairs(cases) do
      local inputs = {}
      for k, shape in ipairs(case[2]) do inputs[k] = wave(shape, "sin", 1.7, k) end
      local value, gradients = neap.value_and_grad(function(...) return checksum(case[1](...), 0.9) end)(
        table.unpack(inputs))
      local off = math.abs(value:item() - case[3])
      assert(off < 1e-10, ("case %d: %.12g, expected %.12g"):format(i, value:item(), case[3]))
      for k, expected in ipairs(case[4]) do
        local got = checksum(gradients[k], 1.3):item()
        local text = "case %d, input %d: %.12g, expected %.12g"
        assert(math.abs(got - expected) < 1e-10, text:format(i, k, got, expected))
      end
    end
  end)

  it("find and count", function()
    local edges = neap.tensor {1, 3, 3, 5}
    assert.same({0, 1, 4, 4}, neap.searchsorted(edges, neap.tensor {0, 3, 6, 0 / 0}):totable())
    assert.same({0, 3, 4}, neap.bucketize(neap.tensor({0, 3, 6}, {dtype = "int64"}), edges, {right = true}):totable())
    assert.same({2, 0, 1, 0}, neap.bincount(index {0, 2, 0}, {minlength = 4}):totable())
    assert.same({2, 1, 1}, neap.histc(neap.tensor {0, 0.5, 1, 3, -1, 2}, {bins = 3, min = 0, max = 2.25}):totable())
    assert.same({2, 1}, neap.histc(neap.tensor {1, 2, 4}, {bins = 2}):totable())
    expect.fails("RANGE", "7", neap.bincount, index {7}, {minlength = 3})
  end)

  it("make tensors", function()
    expect.near_all({-1, -0.5, 0, 0.5, 1}, neap.linspace(-1, 1, 5))
    expect.near_all({1, 2, 4, 8}, neap.logspace(0, 3, 4, {base = 2}))
    assert.same({3}, neap.linspace(3, 9, 1):totable())
    assert.same({{1, 0, 0}, {0, 1, 0}}, neap.eye(2, {m = 3}):totable())
    local like = neap.full_like(index {1, 2}, 7)
    assert.same({{7, 7}, "int64"}, {like:totable(), like.dtype})
    expect.fails("RANGE", {"linspace", "steps"}, neap.linspace, 0, 1, -1)
    expect.fails("RANGE", {"linspace", "steps", "2.5"}, neap.linspace, 0, 1, 2.5)
  end)

  it("come one by one", function()
    local a, b, c = neap.tensor({{1, 2}, {3, 4}, {5, 6}}):unbind()
    assert.same({{1, 2}, {3, 4}, {5, 6}}, {a:totable(), b:totable(), c:totable()})
    local y, x = neap.meshgrid(neap.tensor {1, 2}, neap.tensor {3, 4, 5})
    assert.same({{1, 1, 1}, {2, 2, 2}}, y:totable())
    assert.same({{3, 4, 5}, {3, 4, 5}}, x:totable())
    local u, v = neap.meshgrid(neap.tensor {1, 2}, neap.tensor {3, 4, 5}, {indexing = "xy"})
    assert.same({{{1, 2}, {1, 2}, {1, 2}}, {{3, 3}, {4, 4}, {5, 5}}}, {u:totable(), v:totable()})
    expect.fails("SHAPE", {"meshgrid", "input 2"}, neap.meshgrid, neap.ones(2), neap.ones(2, 2))
  end)

  it("say what does not fit", function()
    local x = neap.ones(2, 3)
    expect.fails("UNSUPPORTED", {"masked_select", "masked_fill"}, neap.masked_select, x, x:gt(0))
    expect.fails("UNSUPPORTED", {"nonzero", "topk"}, x.nonzero, x)
    expect.fails("SHAPE", {"bmm", "[2, 3]"}, neap.bmm, x, x)
    expect.fails("SHAPE", {"tensordot", "[2, 3]"}, neap.tensordot, x, x, 1)
    expect.fails("RANGE", {"pad", "reflect", "3"}, x.pad, x, {pad = {3, 0}, mode = "reflect"})
    expect.fails("INVALID", {"value", "circular"}, x.pad, x, {pad = {1, 0}, mode = "circular", value = 1})
    expect.fails("INVALID", {"value"}, x.scatter, x, index {{0}}, {dim = 1})
    expect.fails("SHAPE", {"pixel_shuffle", "upscale_factor"}, neap.pixel_shuffle, neap.ones(1, 3, 2, 2), 2)
    expect.fails("INVALID", "align_corners", neap.interpolate, neap.ones(1, 1, 2, 2), {size = 3, align_corners = true})
    expect.fails("SHAPE", {"unfold", "does not fit"}, neap.unfold, neap.ones(1, 1, 2, 2), 3)
    expect.fails("SHAPE", {"sizes", "[2, 3]"}, x.unflatten, x, 2, {2, 2})
    expect.fails("INVALID", {"movedim", "source", "twice"}, x.movedim, x, {1, 1}, {1, 2})
  end)
end)

describe("Layers that move elements", function()
  it("are the ops", function()
    local x, l, v = neap.randn(2, 4, 6, 6), neap.randn(2, 4, 8), neap.randn(1, 2, 4, 4, 4)
    local pairs_of = {
      {nn.PixelShuffle(2)(x), x:pixel_shuffle(2)}, {nn.PixelUnshuffle(3)(x), x:pixel_unshuffle(3)},
      {nn.ChannelShuffle(2)(x), x:channel_shuffle(2)}, {nn.Unfold(3, {padding = 1})(x), x:unfold(3, {padding = 1})},
      {nn.Fold(6, 2, {stride = 2})(nn.Unfold(2, {stride = 2})(x)), x},
      {nn.Unflatten(2, {2, -1})(x), x:reshape(2, 2, 2, 6, 6)},
      {nn.ZeroPad2d(1)(x), x:pad(1, 1, 1, 1)}, {nn.ConstantPad1d({1, 2}, 3)(l), l:pad {pad = {1, 2}, value = 3}},
      {nn.ReflectionPad2d {1, 2, 0, 1}(x), x:pad {pad = {1, 2, 0, 1}, mode = "reflect"}},
      {nn.ReplicationPad1d(2)(l), l:pad {pad = {2, 2}, mode = "replicate"}},
      {nn.CircularPad2d(1)(x), x:pad {pad = {1, 1, 1, 1}, mode = "circular"}},
      {nn.MaxPool1d(2)(l), l:max_pool1d(2)}, {nn.AvgPool1d(3, {stride = 1})(l), l:avg_pool1d(3, 1)},
      {nn.MaxPool3d(2)(v), v:max_pool3d(2)}, {nn.AvgPool3d({2, 1, 1})(v), v:avg_pool3d {kernel_size = {2, 1, 1}}},
      {nn.AdaptiveAvgPool1d(3)(l), l:adaptive_avg_pool1d(3)}, {nn.AdaptiveMaxPool1d(3)(l), l:adaptive_max_pool1d(3)},
      {nn.AdaptiveMaxPool2d {2, 3}(x), x:adaptive_max_pool2d {output_size = {2, 3}}},
      {nn.CosineSimilarity()(l, l:flip(1)), neap.cosine_similarity(l, l:flip(1), {dim = 2})},
    }
    for i, pair in ipairs(pairs_of) do
      assert(pair[1]:tobytes() == pair[2]:tobytes() and #pair[1].shape == #pair[2].shape, ("pair %d differs"):format(i))
    end
    expect.near_all({math.sqrt(3)}, nn.PairwiseDistance {eps = 0}(neap.ones(1, 3), neap.zeros(1, 3)))
    expect.fails("INVALID", {"nn.ReflectionPad2d", "3"}, nn.ReflectionPad2d, {1, 2, 3})
    expect.fails("INVALID", {"nn.PixelShuffle", "upscale_factor"}, nn.PixelShuffle, 0)
  end)

  it("convolve in one and three dimensions", function()
    local up = nn.ConvTranspose1d(2, 3, 4, {stride = 2, padding = 1})
    local volume = nn.Conv3d(2, 4, {1, 3, 3}, {padding = {0, 1, 1}})
    assert.same({5, 3, 8}, up(neap.ones(5, 2, 4)).shape)
    assert.same({1, 4, 2, 5, 5}, volume(neap.ones(1, 2, 2, 5, 5)).shape)
    assert.same({{2, 3, 4}, {4, 2, 1, 3, 3}}, {up.weight.shape, volume.weight.shape})
  end)

  it("drop whole channels, and keep mean and variance", function()
    neap.manual_seed(1)
    local y = nn.Dropout2d(0.5)(neap.ones(64, 32, 3, 2))
    local channels = y:sum {dim = {3, 4}}
    assert.same({0, 12}, {channels:amin():item(), channels:amax():item()})
    expect.near(0, channels:eq(0):logical_or(channels:eq(12)):logical_not():to("fp32"):sum():item())
    expect.near(0.5, channels:eq(0):to("fp32"):mean():item(), 0.05)
    local z = nn.AlphaDropout(0.3)(neap.randn(1000, 100))
    expect.near(0, z:mean():item(), 0.02)
    expect.near(1, z:var():item(), 0.03)
    local still = nn.Dropout1d(0.5)
    still:eval()
    assert.same({{{1, 1}}}, still(neap.ones(1, 1, 2)):totable())
    local _, g = neap.value_and_grad(function(x) return x:dropout2d(0.5):sum() end)(neap.ones(4, 4, 2, 2))
    assert.same({0, 2}, {g[1]:amin():item(), g[1]:amax():item()})
  end)
end)
