-- http-request lua.stint GATE DEAD: asks a gate whether a request may pass, and answers for it if not.
-- DEAD says what happens while no node answers: "open" lets the request pass, "closed" refuses it.
-- A request that may pass has the variable txn.stint.

local nodes = "http://127.0.0.1:7399" -- the listener "stint" of haproxy.cfg, which bounds times and retries
local token = os.getenv("STINT_TOKEN")   -- where nodes ask for tokens
local shown = { "ratelimit", "ratelimit-policy" } -- become txn.ratelimit and txn.ratelimit_policy

local function deny(txn, status, headers, body)
  local reply = txn:reply { status = status, body = body }
  for name, values in pairs(headers) do
    if name ~= "content-length" and name ~= "date" then
      for _, value in pairs(values) do reply:add_header(name, value) end
    end
  end
  txn:done(reply)
end

-- What the gate could not read, or not as the site does, is refused: a header that is there twice, or one with control bytes.
local function readable(txn, headers)
  for _, name in ipairs { "host", "authorization", "x-api-key" } do
    if txn.f:req_fhdr_cnt(name) > 1 then return false end
  end
  for _, values in pairs(headers) do
    if values[1] and values[1]:find("[%z\1-\8\10-\31\127]") then return false end
  end
  return true
end

core.register_action("stint", { "http-req" }, function(txn, gate, dead)
  local before = txn.f:req_fhdr("x-forwarded-for")
  local headers = {
    ["host"]              = { txn.f:req_fhdr("host") },
    ["x-original-method"] = { txn.f:method() },
    ["x-original-uri"]    = { txn.f:pathq() },
    ["x-forwarded-for"]   = { (before and before .. ", " or "") .. txn.f:src() },
    ["x-request-id"]      = { txn.f:unique_id() }, -- the same for retries: counted once
    ["authorization"]     = { txn.f:req_fhdr("authorization") }, -- for gates that tell callers apart by a token or a key
    ["x-api-key"]         = { txn.f:req_fhdr("x-api-key") },
    ["stint-token"]       = { token },
  }
  if not readable(txn, headers) then deny(txn, 400, {}, "") end
  local response = core.httpclient():get {
    url = nodes .. "/gate/" .. gate,
    timeout = 2000, -- ms
    headers = headers,
  }
  local status = response and response.status or 0 -- 0: nobody answered
  local said = response and response.headers or {}
  local asked = said["cache-control"] and said["cache-control"][0] == "no-store" -- the gate's own answer
  if asked and status == 200 then
    for _, name in ipairs(shown) do
      if said[name] then txn:set_var("txn." .. name:gsub("-", "_"), said[name][0]) end
    end
    txn:set_var("txn.stint", "asked")
  elseif asked then
    deny(txn, status, said, response.body)
  elseif status > 0 and status < 500 then -- a node lives, and did not read the question: the visitor's doing
    deny(txn, 400, {}, "")
  elseif dead == "open" then
    txn:set_var("txn.stint", "dead")
  else
    deny(txn, 503, { ["retry-after"] = { "1" } }, "")
  end
end, 2)
