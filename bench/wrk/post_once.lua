-- Requests that cannot be repeated: each line of a file is a path and a token. A third argument says that they
-- can be after all.
require("summary")

local file, body, again

function init(args)
  file = io.open(args[1])
  body = io.open(args[2]):read("*a")
  again = args[3]
end

local function next_line()
  local line = file:read("*l")
  if line == nil and again then
    file:seek("set")
    line = file:read("*l")
  end
  return line
end

function request()
  local line = next_line()
  if line == nil then
    wrk.thread:stop()
    return wrk.format("GET", "/bare/nothing-left")
  end
  local path, token = line:match("(%S+) (%S+)")
  wrk.headers["Authorization"] = "Bearer " .. token
  return wrk.format("POST", path, wrk.headers, body)
end
