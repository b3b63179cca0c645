-- A token bucket in a hash: ARGV are its size and the milliseconds in which it fills. It uses the server's clock
-- because the clients' clocks differ. 0: allowed; 1: denied.
local size, fill = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local bucket = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local tokens, at = tonumber(bucket[1]) or size, tonumber(bucket[2]) or now
tokens = math.min(size, tokens + math.max(0, now - at) * size / fill)
local denied = 1
if tokens >= 1 then tokens, denied = tokens - 1, 0 end
redis.call('HMSET', KEYS[1], 'tokens', tokens, 'at', now)
redis.call('PEXPIRE', KEYS[1], fill)
return denied
