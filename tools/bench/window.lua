-- The most common fixed window on Redis: count, and let the first count start the window. 0: allowed; 1: denied.
local count = redis.call('INCR', KEYS[1])
if count == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return count > tonumber(ARGV[1]) and 1 or 0
