--- What a trainer counts at a commit, and what it does when an error comes in between.
local neap = require "neap"
local expect = require "support.expect"
local training = require "support.training"
local schedule = neap.optim.schedule
local pcall, sethook = pcall, debug.sethook

local function state_of(trainer)
  return trainer.model:state()
end

local function bytes_of(path)
  local file = assert(io.open(path, "rb"))
  local bytes = file:read "a"
  file:close()
  return bytes
end

local function write(path, bytes)
  local file = assert(io.open(path, "wb"))
  file:write(bytes)
  file:close()
end

--- All that a failed resume must leave alone.
local function everything(trainer)
  local parts = {}
  for _, tensor in ipairs(trainer.model:parameters()) do parts[#parts + 1] = tensor:tobytes() end
  for _, name in ipairs {"exp_avg", "exp_avg_sq"} do
    for _, path in ipairs {"fc1.weight", "fc3.bias"} do
      parts[#parts + 1] = trainer.optimizer:moments()[name][path]:tobytes()
    end
  end
  local place = trainer.loader:state()
  parts[#parts + 1] = ("%d %d %d %d %d %g"):format(trainer.steps_done, trainer.epochs_done, place.epoch,
    place.position, trainer.optimizer:step_count(), trainer.optimizer.lr)
  return table.concat(parts)
end

describe("The ledger of a trainer", function()
  after_each(expect.remove_files)

  it("is whole when hooks run, also at an epoch's last step", function()
    local path, straight = expect.path(), training.trainer()
    straight:fit {epochs = 3}
    local first = training.trainer()
    first:on("step", function(t) if t.steps_done == 3 then assert(t:save(path)) end end)
    first:fit {steps = 4}
    local second = training.trainer {model = training.model(99)}
    assert(second:resume(path))
    assert.equal(1, second.epochs_done)
    second:fit {epochs = 3}
    assert.equal(9, second.steps_done)
    assert.is_true(expect.same_bits(state_of(straight), state_of(second)))
  end)

  it("has the step of a hook that raises, and what was not told yet is told later", function()
    local straight, trainer, seen = training.trainer(), training.trainer(), {}
    straight:fit {epochs = 2}
    trainer:on("step", function(t)
      seen[#seen + 1] = "step " .. t.steps_done
      if t.steps_done == 3 then error("boom", 0) end
    end)
    trainer:on("epoch", function(t) seen[#seen + 1] = "epoch " .. t.epochs_done end)
    assert.equal("boom", expect.error_of(trainer.fit, trainer, {epochs = 2}))
    assert.same({3, 1}, {trainer.steps_done, trainer.epochs_done})
    trainer:fit {epochs = 2}
    assert.same({"step 1", "step 2", "step 3", "epoch 1", "step 4", "step 5", "step 6", "epoch 2"}, seen)
    assert.is_true(expect.same_bits(state_of(straight), state_of(trainer)))
  end)

  it("lets a hook resume: what it was in the middle of is not counted", function()
    local path, trainer, once = expect.path(), training.trainer(), false
    trainer:fit {steps = 2}
    assert(trainer:save(path))
    trainer:on("step", function(t)
      if t.steps_done == 6 and not once then
        once = true
        assert(t:resume(path))
      end
    end)
    trainer:fit {epochs = 3}
    assert.same({9, 3}, {trainer.steps_done, trainer.epochs_done})
  end)

  it("holds whatever line of a script is interrupted", function()
    local function make()
      return training.trainer {
        loader = training.loader(20, {batch_size = 8}), model = require "models.mlp" {sizes = {16, 4}}, seed = 3,
        schedule = schedule.step {every = 2, gamma = 0.5},
      }
    end
    local straight = make()
    straight:fit {epochs = 2}
    local runs, want = 0, straight.model:state()
    for k = 30, 20000, 173 do
      local trainer = make()
      local function fit()
        trainer:fit {epochs = 2}
        sethook()
      end
      local function interrupt()
        sethook()
        error("interrupted", 0)
      end
      sethook(interrupt, "", k)
      local done = pcall(fit)
      if done then break end
      runs = runs + 1
      trainer:fit {epochs = 2}
      assert.same({6, 2, 6}, {trainer.steps_done, trainer.epochs_done, trainer.optimizer:step_count()}, k)
      assert.is_true(expect.same_bits(want, trainer.model:state()), k)
      assert.equal(straight.optimizer.lr, trainer.optimizer.lr)
    end
    assert.is_true(runs > 20)
  end)

  it("counts a commit that nobody was told of before it saves", function()
    local path, straight, trainer = expect.path(), training.trainer(), training.trainer()
    straight:fit {steps = 5}
    trainer:fit {steps = 1}
    -- As when an error comes right after the engine's commit.
    local batch = trainer.loader:peek()
    trainer.batch = batch
    trainer.update:step(math.huge, batch.x, batch.y)
    assert(trainer:save(path))
    local other = training.trainer()
    assert(other:resume(path))
    other:fit {steps = 5}
    assert.is_true(expect.same_bits(state_of(straight), state_of(other)))
  end)

  it("has the losses of the epoch so far, which a schedule may watch", function()
    local function make()
      return training.trainer {schedule = schedule.plateau {patience = 0, threshold = 0.2, factor = 0.5}}
    end
    local path, straight, first, second = expect.path(), make(), make(), make()
    local means = {}
    for _, trainer in ipairs {straight, second} do
      trainer:on("epoch", function(_, event) means[#means + 1] = event.loss end)
    end
    straight:fit {epochs = 1}
    first:fit {steps = 2}
    assert(first:save(path))
    assert(second:resume(path))
    second:fit {epochs = 1}
    assert.equal(means[1], means[2])
    assert.same(straight.schedule:state(), second.schedule:state())
  end)

  it("asks for a new resume when one did not come to its end", function()
    local path, trainer = expect.path(), training.trainer()
    assert(training.trainer():save(path))
    local put = trainer.loader.load_state
    trainer.loader.load_state = function() error("interrupted", 0) end
    assert.equal("interrupted", expect.error_of(trainer.resume, trainer, path))
    trainer.loader.load_state = put
    expect.fails("INVALID", {path, "resume again"}, trainer.fit, trainer, {steps = 1})
    expect.fails("INVALID", {path, "resume again"}, trainer.save, trainer, path)
    assert(trainer:resume(path))
    trainer:fit {steps = 1}
  end)
end)

describe("A checkpoint that cannot be resumed", function()
  after_each(expect.remove_files)

  it("changes nothing when one of its last values is damaged", function()
    local path, trainer = expect.path(), training.trainer()
    trainer:fit {steps = 2}
    assert(trainer:save(path))
    local bytes = bytes_of(path)
    local last = trainer.optimizer:moments().exp_avg_sq["fc3.weight"]:tobytes()
    local at = assert(bytes:find(last, 1, true))
    write(path, bytes:sub(1, at + 4) .. string.char(bytes:byte(at + 5) ~ 1) .. bytes:sub(at + 6))
    local other = training.trainer {model = training.model(99)}
    other:fit {steps = 1}
    assert.is_false(other:step({budget_ms = 0}).committed)
    local before = everything(other)
    expect.fails("CORRUPT", "exp_avg_sq", other.resume, other, path)
    assert.equal(before, everything(other))
    assert.is_true(other.update:is_running())
    other:fit {steps = 2}
  end)

  it("changes nothing while another's update is unfinished, but the trainer's own is dropped", function()
    local path, straight, trainer = expect.path(), training.trainer(), training.trainer()
    straight:fit {steps = 3}
    trainer:fit {steps = 1}
    assert(trainer:save(path))
    trainer:fit {steps = 2}
    local head = neap.update {
      loss = function(x) return trainer.model.fc3.bias:sum() * x:mean() end,
      optimizer = neap.optim.sgd {params = {trainer.model.fc3.bias}, lr = 0.1}, batch_dims = {false},
    }
    assert.is_false((head:step(0, neap.ones(2))))
    local before = everything(trainer)
    expect.fails("BUSY", "unfinished update", trainer.resume, trainer, path)
    assert.equal(before, everything(trainer))
    head:drop()
    assert.is_false(trainer:step({budget_ms = 0}).committed)
    assert(trainer:resume(path))
    assert.is_false(trainer.update:is_running())
    trainer:fit {steps = 3}
    assert.is_true(expect.same_bits(straight.model:state(), trainer.model:state()))
  end)

  it("changes nothing when it is of more samples", function()
    local path, trainer = expect.path(), training.trainer()
    trainer:fit {steps = 2}
    assert(trainer:save(path))
    local other = training.trainer {model = training.model(99), loader = training.loader(16)}
    local before = everything(other)
    expect.fails("RANGE", {"position is 64", "16 samples"}, other.resume, other, path)
    assert.equal(before, everything(other))
  end)

  it("changes nothing when its settings are not for this optimizer", function()
    local path = expect.path()
    local trainer = training.trainer {optimizer = neap.optim.sgd {lr = 0.5, momentum = 0.9}}
    trainer:fit {steps = 1}
    assert(trainer:save(path))
    local other = training.trainer {model = training.model(99), optimizer = neap.optim.sgd {lr = 0.1}}
    local before = state_of(other)
    expect.fails("INVALID", "momentum", other.resume, other, path)
    assert.is_true(expect.same_bits(before, state_of(other)))
    assert.same({0.1, 0, 0}, {other.optimizer.lr, other.optimizer.momentum, other.optimizer:step_count()})
    other:fit {steps = 1}
  end)
end)

describe("The checkpoints of a run", function()
  after_each(expect.remove_files)

  it("are written anew after an older one was resumed", function()
    local path, old = expect.path(), expect.path()
    local trainer = training.trainer {checkpoint = {path = path, keep = 1}}
    trainer:fit {steps = 1}
    assert(trainer:save(old))
    trainer:fit {steps = 2}
    assert(trainer:resume(old))
    trainer.optimizer.lr = 0.5
    trainer:fit {steps = 2}
    local other = training.trainer()
    assert(other:resume(path))
    assert.is_true(expect.same_bits(state_of(trainer), state_of(other)))
  end)

  it("take nobody's place but a file's", function()
    local path = expect.path()
    assert(os.execute(("mkdir '%s'"):format(path)))
    local trainer = training.trainer {checkpoint = {path = path, every = 1}}
    expect.fails("INVALID", {path, "not a regular file"}, trainer.fit, trainer, {steps = 1})
    assert(os.execute(("rmdir '%s'"):format(path)))
    trainer:fit {steps = 2}
    assert.equal(2, neap.hdf5.read(path).state.attributes.step)
  end)

  it("have the micro-batches in force, though the last batch needs none", function()
    local path = expect.path()
    local function make()
      local trainer = training.trainer {loader = training.loader(84)}
      trainer.update:start_with(9)
      return trainer
    end
    local straight, first, second = make(), make(), training.trainer {loader = training.loader(84)}
    first.loader:set_batch_size(76)
    straight.loader:set_batch_size(76)
    straight:fit {epochs = 2}
    first:fit {epochs = 1}
    assert.equal(8, first.update:plan().micro_batch)
    assert(first:save(path))
    assert(second:resume(path))
    second:fit {epochs = 2}
    assert.is_true(expect.same_bits(state_of(straight), state_of(second)))
  end)

  it("that could not be saved say why the run ends", function()
    local trainer = training.trainer {
      loader = training.loader(4096, {batch_size = 4096}),
      policy = neap.policy.checkpoint_and_stop {path = "/nowhere/a"},
    }
    finally(function() neap.set_memory_limit(nil, "now") end)
    trainer.state.note = print
    training.leave_room(0)
    local err = expect.fails("STOPPED", {"/nowhere/a", "trainer.state.note"}, trainer.fit, trainer, {steps = 1})
    assert.equal(3, err.exit_code)
  end)
end)

describe("Evaluation", function()
  it("sees all of a loader, wherever it is, and leaves it there", function()
    local trainer = training.trainer()
    local fresh, used = training.loader(50), training.loader(50)
    local want = trainer:evaluate(fresh)
    used:next()
    local place = used:state()
    for _ = 1, 3 do assert.same(want, trainer:evaluate(used)) end
    assert.same(place, used:state())
    assert.equal(32, used:next().position)
    local sizes = {}
    for batch in fresh:epoch(1) do sizes[#sizes + 1] = batch.size end
    assert.same({32, 18}, sizes)
  end)
end)

describe("A journal", function()
  it("that cannot be written is an error", function()
    if not io.open "/dev/full" then return pending "there is no /dev/full" end
    local trainer = training.trainer {journal = "/dev/full"}
    expect.fails("IO", {"/dev/full", "written"}, trainer.fit, trainer, {steps = 1})
    assert.equal(1, trainer.steps_done)
  end)
end)
