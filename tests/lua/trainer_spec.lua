local neap = require "neap"
local expect = require "support.expect"
local training = require "support.training"
local action, policy = neap.action, neap.policy
local json = require "neap.json"

--- Bytes of the arena that a step of this trainer needs.
local function arena(trainer, options)
  return trainer:predict_memory(options).memory.arena
end

local function read_lines(path)
  local lines = {}
  for line in io.lines(path) do lines[#lines + 1] = json.decode(line) end
  return lines
end

local function exists(path)
  local file = io.open(path, "rb")
  if file then file:close() end
  return file ~= nil
end

describe("A trainer", function()
  it("fits so many epochs, counted in all", function()
    local trainer = training.trainer()
    local result = trainer:fit {epochs = 2}
    assert.equal(6, result.step)
    assert.equal(2, trainer.epochs_done)
    trainer:fit {epochs = 2}
    assert.equal(6, trainer.steps_done)
    trainer:fit {epochs = 3}
    assert.equal(9, trainer.steps_done)
  end)

  it("fits so many steps, counted in all", function()
    local trainer = training.trainer()
    trainer:fit {steps = 4}
    assert.equal(4, trainer.steps_done)
    assert.equal(1, trainer.epochs_done)
    trainer:fit {steps = 4}
    assert.equal(4, trainer.optimizer:step_count())
  end)

  it("learns", function()
    local trainer = training.trainer()
    local before = trainer:evaluate(training.loader(96))
    trainer:fit {epochs = 40}
    local after = trainer:evaluate(training.loader(96))
    assert.is_true(after.loss < 0.3 * before.loss)
    assert.is_true(after.accuracy > 0.9)
  end)

  it("takes a step function instead of a loss", function()
    local seen = {}
    local trainer = neap.trainer {
      model = training.model(), optimizer = neap.optim.sgd {lr = 0.1}, loader = training.loader(64), progress = false,
      step = function(model, batch)
        for name in pairs(batch) do seen[name] = true end
        return neap.cross_entropy(model(batch.x), batch.y)
      end,
    }
    trainer:fit {steps = 2}
    assert.same({x = true, y = true}, seen)
    local reference = training.trainer {optimizer = neap.optim.sgd {lr = 0.1}, loader = training.loader(64)}
    reference:fit {steps = 2}
    assert.is_true(expect.same_bits(reference.model:state(), trainer.model:state()))
  end)

  it("shows a step how many samples there are, and says what else it does not see", function()
    local function make(step)
      return neap.trainer {
        model = training.model(), optimizer = neap.optim.sgd {lr = 0.1}, loader = training.loader(64),
        progress = false, step = step,
      }
    end
    local function loss(model, batch) return neap.cross_entropy(model(batch.x), batch.y, {reduction = "sum"}) end
    local trainer = make(function(model, batch) return loss(model, batch) / batch.size end)
    local reference = training.trainer {optimizer = neap.optim.sgd {lr = 0.1}, loader = training.loader(64)}
    -- Evaluated before anything was trained, as after resuming.
    expect.near(reference:evaluate(training.loader(50)).loss, trainer:evaluate(training.loader(50)).loss)
    trainer:fit {steps = 1}
    reference:fit {steps = 1}
    expect.near(reference.loss, trainer.loss)
    trainer = make(function(model, batch) return loss(model, batch) * batch.epoch end)
    expect.fails("INVALID", {"batch.epoch", "traced"}, trainer.fit, trainer, {steps = 1})
  end)

  it("gives the same bits in slices as in fit", function()
    local whole, sliced = training.trainer(), training.trainer()
    whole:fit {steps = 5}
    local slices = 0
    while sliced.steps_done < 5 do
      sliced:step {budget_ms = 0}
      slices = slices + 1
    end
    assert.is_true(slices > 5)
    assert.equal(whole.loss, sliced.loss)
    assert.is_true(expect.same_bits(whole.model:state(), sliced.model:state()))
  end)

  it("tells in each slice whether the update was committed", function()
    local trainer = training.trainer()
    local slice = trainer:step {budget_ms = 0}
    assert.is_false(slice.committed)
    assert.equal(0, slice.step)
    slice = trainer:step()
    assert.is_true(slice.committed)
    assert.equal(1, slice.step)
    assert.equal("number", type(slice.loss))
  end)

  it("calls hooks at steps and epochs, which may change the learning rate", function()
    local seen = {}
    local trainer = training.trainer()
    trainer:on("step", function(t, event)
      seen[#seen + 1] = ("step %d %d"):format(event.step, event.size)
      t.optimizer.lr = 0
    end)
    trainer:on("epoch", function(_, event) seen[#seen + 1] = "epoch " .. event.epoch end)
    trainer:fit {epochs = 1}
    assert.same({"step 1 32", "step 2 32", "step 3 32", "epoch 1"}, seen)
    local state = trainer.model:state()
    trainer.optimizer.weight_decay = 0
    trainer:fit {steps = 4}
    assert.is_true(expect.same_bits(state, trainer.model:state()))
  end)

  it("stops after the update in hand", function()
    local trainer, reasons = training.trainer(), {}
    trainer:on("step", function(t) if t.steps_done == 2 then t:stop() end end)
    trainer:on("stop", function(_, event) reasons[#reasons + 1] = event.reason end)
    trainer:fit {epochs = 9}
    assert.equal(2, trainer.steps_done)
    assert.equal(1, #reasons)
  end)

  it("shows its progress in lines", function()
    local lines = {}
    local trainer = training.trainer {progress = function(line) lines[#lines + 1] = line end}
    trainer:fit {epochs = 2}
    assert.equal(2, #lines)
    assert.truthy(lines[1]:find("epoch 1/2  step 3  loss", 1, true))
    assert.truthy(lines[2]:find("samples/s  memory", 1, true))
  end)

  it("draws the same parameters and order for the same seed", function()
    local function train(seed)
      local loader = neap.data.loader {dataset = training.loader(96).dataset, batch_size = 32, shuffle = true}
      local trainer = neap.trainer {
        model = require "models.mlp" {sizes = {16, 8, 4}}, loss = neap.cross_entropy, loader = loader,
        optimizer = neap.optim.sgd {lr = 0.1}, seed = seed, progress = false,
      }
      trainer:fit {steps = 4}
      return trainer.model:state()
    end
    local first = train(11)
    assert.is_true(expect.same_bits(first, train(11)))
    assert.is_false((expect.same_bits(first, train(12))))
  end)

  it("refuses bad options by name", function()
    local function make(change)
      return function() training.trainer(change) end
    end
    expect.fails("INVALID", {"lossy"}, make {lossy = 1})
    expect.fails("INVALID", {"either loss"}, make {step = function() end})
    expect.fails("INVALID", {"model", "module"}, make {model = {}})
    expect.fails("INVALID", {"optimizer"}, make {optimizer = {}})
    expect.fails("INVALID", {"loader"}, make {loader = {}})
    expect.fails("INVALID", {"path", "missing"}, make {checkpoint = {}})
    expect.fails("INVALID", {"keep", "0"}, make {checkpoint = {path = "a", keep = 0}})
    expect.fails("INVALID", {"mode", "up"}, make {checkpoint = {path = "a", best = {mode = "up"}}})
    expect.fails("IO", {"journal", "/nowhere/"}, make {journal = "/nowhere/journal"})
    local trainer = training.trainer()
    expect.fails("INVALID", {"epochs or steps"}, trainer.fit, trainer, {})
    expect.fails("INVALID", {"epochs", "-1"}, trainer.fit, trainer, {epochs = -1})
    expect.fails("INVALID", {"budget_ms", "nan"}, trainer.step, trainer, {budget_ms = 0 / 0})
    expect.fails("INVALID", {"ooom"}, trainer.on, trainer, "ooom", print)
    expect.fails("INVALID", {"number", "loader"}, trainer.evaluate, trainer, 3)
  end)

  it("refuses an epoch without batches", function()
    local trainer = training.trainer {loader = training.loader(8, {batch_size = 32, drop_last = true})}
    expect.fails("INVALID", {"no batch", "8 samples", "drop_last"}, trainer.fit, trainer, {epochs = 1})
  end)
end)

describe("A trainer whose batch grew", function()
  local schedule = neap.optim.schedule

  --- 48 of 96 samples were taken in batches of 16; then batches are of 64, and the rest is dropped.
  local function grown(options)
    local o = {loader = training.loader(96, {batch_size = 16, drop_last = true})}
    for name, v in pairs(options or {}) do o[name] = v end
    local trainer, seen = training.trainer(o), {}
    trainer:on("step", function(t, e)
      seen[#seen + 1] = ("%d/%d %d"):format(t.epochs_done, t.loader.position, e.size)
    end)
    trainer:on("epoch", function(_, e) seen[#seen + 1] = e.loss end)
    trainer:fit {steps = 3}
    trainer.loader:set_batch_size(64)
    return trainer, seen
  end

  it("drops the rest of the epoch that is no batch any more, and counts it", function()
    local trainer, seen = grown()
    trainer:fit {epochs = 1}
    assert.same({3, 1, 0}, {trainer.steps_done, trainer.epochs_done, trainer.loader.position})
    assert.is_true(seen[4] > 0)
    trainer:fit {epochs = 2}
    assert.same({"0/16 16", "0/32 16", "0/48 16", seen[4], "2/0 64"}, table.move(seen, 1, 5, 1, {}))
    assert.same({2, 4}, {trainer.epochs_done, trainer.steps_done})
    trainer.loader:set_batch_size(97)
    expect.fails("INVALID", {"no batch", "96 samples"}, trainer.step, trainer)
  end)

  it("goes on in slices, and its schedule sees the mean of what there was of the epoch", function()
    local plateau = schedule.plateau {patience = 0, factor = 0.5}
    local trainer = grown {schedule = plateau}
    assert.is_nil(plateau:state().best)
    trainer:prepare()
    local best, updates = plateau:state().best, plateau:state().updates
    assert.same({1, 3}, {trainer.epochs_done, updates})
    assert.is_true(best > 0)
    assert.is_true(trainer:step().committed)
    assert.same({4, 4}, {trainer.steps_done, plateau:state().updates})
  end)
end)

describe("Evaluation", function()
  it("means over all samples, the last batch by its size", function()
    local trainer = training.trainer()
    local whole = trainer:evaluate(training.loader(50, {batch_size = 50, shuffle = false}))
    local parts = trainer:evaluate(training.loader(50, {batch_size = 16, shuffle = false}))
    expect.near(whole.loss, parts.loss, 1e-5)
    expect.near(whole.accuracy, parts.accuracy)
  end)

  it("computes metrics of the user's", function()
    local trainer = training.trainer()
    local result = trainer:evaluate(training.loader(40), {metrics = {
      right = function(pred, target) return pred:argmax {dim = -1}:eq(target):to("fp32"):mean():item() end,
      size = function(pred) return pred:select(2, 1):mean() * 0 + 7 end,
    }})
    expect.near(result.accuracy, result.right)
    expect.near(7, result.size)
  end)

  it("has the model in evaluation mode and puts it back, also after an error", function()
    local Mode = neap.nn.module("Mode", {
      init = function(self) self.fc = neap.nn.Linear(16, 4) end,
      forward = function(self, x)
        local y = self.fc(x)
        return neap.nn.is_training(self) and y or y * 0
      end,
    })
    local trainer = training.trainer {model = Mode()}
    expect.near(math.log(4), trainer:evaluate(training.loader(8)).loss, 1e-6)
    assert.is_true(neap.nn.is_training(trainer.model))
    assert.equal("bad metric", expect.error_of(function()
      trainer:evaluate(training.loader(8), {metrics = {bad = function() error("bad metric", 0) end}})
    end))
    assert.is_true(neap.nn.is_training(trainer.model.fc))
  end)

  it("leaves the training data where it was", function()
    local plain, watched = training.trainer(), training.trainer()
    plain:fit {steps = 4}
    for i = 1, 4 do
      watched:fit {steps = i}
      watched:evaluate(watched.loader)
    end
    assert.is_true(expect.same_bits(plain.model:state(), watched.model:state()))
  end)

  it("works in smaller pieces where memory is short", function()
    finally(function() neap.set_memory_limit(nil, "now") end)
    local trainer = training.trainer()
    local loader = training.loader(8192, {batch_size = 8192, shuffle = false})
    local free = trainer:evaluate(loader)
    -- Two layers of 64 wide take 4 MiB for all samples.
    training.leave_room(2 << 20)
    local bound = trainer:evaluate(loader)
    expect.near(free.loss, bound.loss, 1e-5)
    expect.near(free.accuracy, bound.accuracy)
  end)

  it("refuses bad metrics", function()
    local trainer = training.trainer()
    expect.fails("INVALID", {"metrics[a]"}, trainer.evaluate, trainer, training.loader(8), {metrics = {a = 3}})
    expect.fails("INVALID", {"metric a", "nil"}, trainer.evaluate, trainer, training.loader(8),
                 {metrics = {a = function() end}})
  end)
end)

describe("A checkpoint", function()
  after_each(expect.remove_files)

  it("lets another trainer go on with the same bits", function()
    local path = expect.path()
    local straight = training.trainer()
    straight:fit {steps = 7}

    local first = training.trainer()
    first.state.note = {list = {1, 2.5}, text = "mine"}
    first.optimizer.lr = 1e-2
    first:fit {steps = 4}
    assert(first:save(path))

    local second = training.trainer {model = training.model(99)}
    assert.is_true(second:resume(path))
    assert.equal(4, second.steps_done)
    assert.equal(1, second.epochs_done)
    assert.same({list = {1, 2.5}, text = "mine"}, second.state.note)
    second:fit {steps = 7}
    assert.is_true(expect.same_bits(straight.model:state(), second.model:state()))
    assert.equal(straight.loss, second.loss)
  end)

  it("saved in the middle of an update is of the commit before", function()
    local path = expect.path()
    local straight, broken = training.trainer(), training.trainer()
    straight:fit {steps = 4}
    broken:fit {steps = 2}
    assert.is_false(broken:step({budget_ms = 0}).committed)
    assert(broken:save(path))
    broken.update:drop()
    local other = training.trainer {model = training.model(99)}
    assert(other:resume(path))
    other:fit {steps = 4}
    assert.is_true(expect.same_bits(straight.model:state(), other.model:state()))
  end)

  it("keeps the learning rate and draws as they were", function()
    local path = expect.path()
    local trainer = training.trainer()
    trainer:fit {steps = 1}
    trainer.optimizer.lr = 0.123
    neap.rand(3)
    assert(trainer:save(path))
    local drawn = neap.rand(4):tobytes()
    local other = training.trainer()
    assert(other:resume(path))
    assert.equal(0.123, other.optimizer.lr)
    assert.equal(drawn, neap.rand(4):tobytes())
  end)

  it("is laid out by path", function()
    local path = expect.path()
    local trainer = training.trainer()
    trainer:fit {steps = 1}
    assert(trainer:save(path))
    local file = assert(neap.hdf5.read(path))
    assert.same(trainer.model:state()["fc1.weight"]:totable(), file.model["fc1.weight"]:totable())
    assert.same({64, 16}, file.optimizer.exp_avg["fc1.weight"].shape)
    assert.equal("adamw", file.optimizer.attributes.kind)
    assert.equal(1, file.state.attributes.step)
  end)

  it("is written every so many steps, and the older ones are kept", function()
    local path = expect.path()
    local saved = {}
    local trainer = training.trainer {checkpoint = {path = path, every = 2, keep = 2}}
    trainer:on("checkpoint", function(_, event) saved[#saved + 1] = event.step end)
    trainer:fit {steps = 5}
    assert.same({2, 4, 5}, saved)
    assert.equal(5, neap.hdf5.read(path).state.attributes.step)
    assert.equal(4, neap.hdf5.read(path .. ".1").state.attributes.step)
    assert.is_false(exists(path .. ".2"))
    assert.is_false(exists(path .. ".new"))
  end)

  it("is at its path at any time while the older ones move", function()
    local path, rename, seen = expect.path(), os.rename, {}
    local trainer = training.trainer {checkpoint = {path = path, every = 1, keep = 3}}
    trainer:fit {steps = 1}
    os.rename = function(...) -- luacheck: ignore 122
      seen[#seen + 1] = neap.hdf5.read(path).state.attributes.step
      return rename(...)
    end
    pcall(trainer.fit, trainer, {steps = 4})
    os.rename = rename -- luacheck: ignore 122
    assert.same({1, 1, 2, 2, 3, 3}, seen)
    for i, name in ipairs {"", ".1", ".2"} do
      assert.equal(5 - i, neap.hdf5.read(path .. name).state.attributes.step)
    end
  end)

  it("is written at each epoch when no number of steps is given", function()
    local path, saved = expect.path(), {}
    local trainer = training.trainer {checkpoint = {path = path, keep = 1}}
    trainer:on("checkpoint", function(_, event) saved[#saved + 1] = event.step end)
    trainer:fit {epochs = 2}
    assert.same({3, 6}, saved)
    assert.is_false(exists(path .. ".1"))
  end)

  it("of the best evaluation is kept apart", function()
    local path, best = expect.path(), expect.path ".best.h5"
    local trainer = training.trainer {checkpoint = {path = path, best = {metric = "score", mode = "max", path = best}}}
    local scores, step_of_best = {1, 3, 2}, nil
    for i, score in ipairs(scores) do
      trainer:fit {steps = i}
      trainer:evaluate(training.loader(8), {metrics = {score = function() return score end}})
      step_of_best = neap.hdf5.read(best).state.attributes.step
    end
    assert.equal(2, step_of_best)
    assert.equal(3.0, neap.hdf5.read(best).state.attributes.best)
  end)

  it("that is not there is nil and an error", function()
    local ok, err = training.trainer():resume "/nowhere/at.h5"
    assert.is_nil(ok)
    assert.truthy(tostring(err):find("/nowhere/at.h5", 1, true))
  end)

  it("cannot be saved where there is no folder: nil and an error", function()
    local ok, err = training.trainer():save "/nowhere/at.h5"
    assert.is_nil(ok)
    assert.truthy(tostring(err):find("/nowhere/at.h5", 1, true))
  end)

  it("of something else is an error which changes nothing", function()
    local path, plain = expect.path(), expect.path()
    local trainer = training.trainer()
    trainer:fit {steps = 1}
    assert(trainer:save(path))
    local other = training.trainer {model = require "models.mlp" {sizes = {16, 8, 4}}}
    local before = other.model:state()
    expect.fails("SHAPE", {"fc1.weight", "[64, 16]", "[8, 16]"}, other.resume, other, path)
    assert.is_true(expect.same_bits(before, other.model:state()))
    assert.equal(0, other.steps_done)
    other = training.trainer {optimizer = neap.optim.sgd {lr = 1}}
    expect.fails("INVALID", {"optim.sgd", "adamw"}, other.resume, other, path)
    assert(neap.save(plain, {x = neap.zeros(1)}))
    expect.fails("NOT_FOUND", {"no checkpoint"}, other.resume, other, plain)
  end)

  it("that is damaged is an error", function()
    local path = expect.path()
    local trainer = training.trainer()
    assert(trainer:save(path))
    local file = assert(io.open(path, "rb"))
    local bytes = file:read "a"
    file:close()
    file = assert(io.open(path, "wb"))
    file:write(bytes:sub(1, #bytes // 2))
    file:close()
    local ok, err = trainer:resume(path)
    assert.is_nil(ok)
    assert.equal("CORRUPT", err.code)
  end)

  it("whose user data is not plain cannot be saved, by name", function()
    local trainer = training.trainer()
    trainer.state.fn = print
    expect.fails("INVALID", {"trainer.state.fn"}, trainer.save, trainer, expect.path())
  end)
end)

describe("When memory is refused, a trainer", function()
  after_each(function()
    neap.set_memory_limit(nil, "now")
    expect.remove_files()
  end)

  local function tight(options, share)
    options.loader = options.loader or training.loader(4096, {batch_size = 2048})
    options.grain = 8
    local trainer = training.trainer(options)
    local need = arena(trainer)
    -- The batch itself is taken from the budget, too.
    training.leave_room(need * share + 2 * 2048 * 4 * 18)
    return trainer
  end

  it("gives the same bits with the default policy, and tells what happened", function()
    local free = training.trainer {loader = training.loader(4096, {batch_size = 2048}), grain = 8}
    free:fit {epochs = 2}
    local journal = expect.path ".jsonl"
    local events = {}
    local trainer = tight({journal = journal}, 0.4)
    trainer:on("oom", function(_, event) events[#events + 1] = event end)
    trainer:fit {epochs = 2}
    neap.set_memory_limit(nil, "now")
    assert.is_true(expect.same_bits(free.model:state(), trainer.model:state()))
    assert.is_true(#events >= 1)
    assert.truthy(events[1].answer:find "micro_batch")
    assert.equal("bits", events[1].exact)
    assert.equal("oom", trainer.events[1].event)

    local lines, kinds = read_lines(journal), {}
    for _, line in ipairs(lines) do
      assert.equal(1, line.v)
      kinds[line.event] = (kinds[line.event] or 0) + 1
    end
    assert.equal(4, kinds.step)
    assert.equal(2, kinds.epoch)
    assert.equal(#events, kinds.oom)
  end)

  it("shrinks the batch and still uses every sample once", function()
    local seen = {}
    local loader = training.loader(4096, {
      batch_size = 2048, transform = function(batch) seen[#seen + 1] = batch end,
    })
    local trainer = tight({loader = loader, policy = policy.shrink_batch {min = 4}}, 0.4)
    seen = {}
    trainer:fit {epochs = 1}
    assert.is_true(loader.batch_size < 2048)
    local used, last = {}, 0
    for i, batch in ipairs(seen) do
      -- A batch that was given back is taken again in parts.
      local given_back = seen[i + 1] and seen[i + 1].position == batch.position
      if not given_back then
        for _, k in ipairs(batch.indices) do used[k] = (used[k] or 0) + 1 end
        last = last + batch.size
      end
    end
    assert.equal(4096, last)
    for k = 1, 4096 do assert.equal(1, used[k]) end
  end)

  it("saves a checkpoint and stops when that is the answer", function()
    local path = expect.path()
    local trainer = tight({policy = policy.checkpoint_and_stop {path = path}}, 0.4)
    local err = expect.fails("STOPPED", {path, "a batch of 2048"}, trainer.fit, trainer, {epochs = 1})
    assert.equal(3, err.exit_code)
    assert.equal(path, err.path)
    neap.set_memory_limit(nil, "now")
    local other = training.trainer {loader = training.loader(4096, {batch_size = 2048}), grain = 8}
    assert(other:resume(path))
    other:fit {epochs = 1}
    local straight = training.trainer {loader = training.loader(4096, {batch_size = 2048}), grain = 8}
    straight:fit {epochs = 1}
    assert.is_true(expect.same_bits(straight.model:state(), other.model:state()))
  end)

  it("saves where it saves by itself when the policy names no path", function()
    local path = expect.path()
    local trainer = tight({policy = policy.checkpoint_and_stop(), checkpoint = {path = path}}, 0.4)
    local err = expect.fails("STOPPED", path, trainer.fit, trainer, {epochs = 1})
    assert.equal(path, err.path)
    assert.equal("stop", trainer.events[#trainer.events].event)
  end)

  it("says why when no checkpoint could be saved", function()
    local trainer = tight({policy = policy.checkpoint_and_stop {path = "/nowhere/at.h5"}}, 0.4)
    local err = expect.fails("STOPPED", {"no checkpoint", "/nowhere/at.h5"}, trainer.fit, trainer, {epochs = 1})
    assert.equal(3, err.exit_code)
  end)

  it("does both when a policy combines answers", function()
    local path = expect.path()
    local trainer = tight({policy = function() return action.micro_batch(256) + action.checkpoint(path) end}, 0.5)
    trainer:fit {steps = 1}
    assert.equal(0, neap.hdf5.read(path).state.attributes.step)
    assert.equal(1, trainer.steps_done)
    assert.equal(256, trainer.update:plan().micro_batch)
  end)

  it("asks its policy when a batch cannot even be loaded", function()
    local wide = neap.data.dataset {
      size = 64, get = function(i) return {x = neap.full({65536}, i / 64), y = i % 4} end,
    }
    local model = neap.nn.Sequential {function(x) return x:narrow(2, 1, 16) end, neap.nn.Linear(16, 4)}
    local events = {}
    local trainer = training.trainer {
      model = model, loader = neap.data.loader {dataset = wide, batch_size = 64},
      policy = policy.shrink_batch {min = 1},
    }
    trainer:on("oom", function(_, event) events[#events + 1] = event end)
    training.leave_room(9 << 20)
    trainer:fit {epochs = 1}
    assert.equal("data", events[1].phase)
    assert.truthy(events[1].message:find("loading a batch of 64", 1, true))
    assert.is_true(trainer.loader.batch_size < 64)
    assert.equal(64 // trainer.loader.batch_size, trainer.steps_done)

    trainer = training.trainer {
      model = model, loader = neap.data.loader {dataset = wide, batch_size = 64}, policy = function() return nil end,
    }
    expect.fails("OOM", {"loading a batch of 64", "no answer"}, trainer.fit, trainer, {epochs = 1})
  end)

  it("predicts what other batches would need", function()
    local trainer = training.trainer {loader = training.loader(512, {batch_size = 64})}
    local held = neap.memory().by_owner.tensors
    local small, large = trainer:predict_memory(), trainer:predict_memory {batch = 512}
    assert.is_true(trainer:predict_memory({batch = 1 << 30}).memory.peak > 1 << 39)
    assert.is_true(neap.memory().by_owner.tensors < held + 1024)
    assert.is_true(large.memory.arena > 4 * small.memory.arena)
    assert.is_true(trainer:predict_memory({batch = 512, micro_batch = 64}).memory.arena < large.memory.arena)
    assert.equal(0, trainer.steps_done)
    expect.fails("INVALID", {"batch", "0"}, trainer.predict_memory, trainer, {batch = 0})
  end)
end)
