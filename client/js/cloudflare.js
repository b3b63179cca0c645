import { safeKey } from './key.js'

// rateLimiter returns an object with the method of a Cloudflare rate limiting binding: limit({ key }) -> { success }. What it
// counts is either a policy or, as in wrangler's file, { name, simple: { limit, period } } with any period in seconds.
// It rejects if there is no decision.
export function rateLimiter(limits, { policy, name, simple, timeoutMs } = {}) {
  const entry = entryOf(policy, name, simple)
  return {
    async limit({ key } = {}) {
      const decision = await limits.check({ ...entry, key: safeKey(key) }, { timeoutMs })
      return { success: decision.allowed, decision }
    },
  }
}

function entryOf(policy, name, simple) {
  if (policy !== undefined && simple === undefined) return { policy }
  if (policy !== undefined || simple === undefined || typeof name !== 'string' || !/^[a-z0-9_-]+$/.test(name)) {
    throw new TypeError('stint: rateLimiter: give policy, or name (a-z, 0-9, - and _) and simple: { limit, period }')
  }
  const { limit, period } = simple
  if (!Number.isSafeInteger(limit) || limit < 1 || !Number.isSafeInteger(period) || period < 1) {
    throw new TypeError('stint: rateLimiter: simple.limit and simple.period (in seconds) must be whole numbers from 1')
  }
  const window = { name: `window-${period}s`, quota: String(limit), fixedWindow: { period: `${period}s`, anchor: 'ANCHOR_EPOCH' } }
  return { policy: `binding.${name}`, limits: [window] }
}
