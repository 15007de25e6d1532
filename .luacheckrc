std = "lua54"
max_line_length = 120
files["tests/**/*_spec.lua"] = {std = "+busted"}
files["tests/lua/support"] = {std = "+busted"}
files["tests/lua/run.lua"] = {globals = {"arg"}}
