// A host in C++: its objects are the user data of functions that scripts call.
#include <map>
#include <string>
#include <vector>

#include "embed.h"

namespace {

class World {
public:
  World() {
    neap_config config;
    neap_config_init(&config);
    config.threads = 1;
    config.log = [](void *user, int, const char *text) { static_cast<World *>(user)->lines.push_back(text); };
    config.log_user = this;
    engine = open_engine(&config);
    OK(engine, neap_register(engine, "observe", observe, this));
    OK(engine, neap_register(engine, "say", say, this));
  }
  ~World() { neap_destroy(engine); }
  World(const World &) = delete;
  World &operator=(const World &) = delete;

  neap_engine *engine = nullptr;
  std::vector<float> state{0.5f, -1.0f, 2.0f};
  std::vector<std::string> lines;
  std::map<std::string, int> said;

private:
  static neap_status observe(void *user, const neap_arg *, size_t, neap_arg *results, size_t *n_results) {
    World &world = *static_cast<World *>(user);
    neap_array array = {world.state.data(),
                        world.state.size() * sizeof(float),
                        NEAP_F32,
                        1,
                        {static_cast<int64_t>(world.state.size())}};
    results[0] = neap_tensor_arg(&array);
    *n_results = 1;
    return NEAP_OK;
  }

  static neap_status say(void *user, const neap_arg *args, size_t n_args, neap_arg *, size_t *) {
    if (n_args != 1 || args[0].type != NEAP_ARG_STRING) return NEAP_INVALID;
    static_cast<World *>(user)->said[std::string(args[0].as.string.text, args[0].as.string.length)]++;
    return NEAP_OK;
  }
};

} // namespace

int main() {
  World world;
  OK(world.engine, run(world.engine, "function think() local t = host.observe() host.say('thinking') "
                                     "return (t * t):sum():item(), t + 1 end warn 'careful'"));
  std::vector<float> moved(3);
  neap_arg results[2] = {neap_number(0), neap_room(moved.data(), moved.size() * sizeof(float))};
  for (int i = 0; i < 3; i++) OK(world.engine, neap_call(world.engine, "think", nullptr, 0, results, 2));
  CHECK(neap_arg_number(&results[0]) == 5.25, "think gave %g", neap_arg_number(&results[0]));
  CHECK(moved == (std::vector<float>{1.5f, 0.0f, 3.0f}), "moved to %g", static_cast<double>(moved[0]));
  CHECK(world.said["thinking"] == 3, "said %d times", world.said["thinking"]);
  CHECK(world.lines.size() == 1 && world.lines[0].find("careful") != std::string::npos, "the warning was not logged");
  FAILS(world.engine, NEAP_INVALID, run(world.engine, "host.say(5)"));
  OK(world.engine, neap_register(world.engine, "say", nullptr, nullptr));
  OK(world.engine, run(world.engine, "assert(host.say == nil)"));
  return 0;
}
