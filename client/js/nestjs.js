import { tightest } from './message.js'
import { isWindow, storeEntry } from './window.js'

const never = 31536000 // seconds: no wait helps

// StintThrottlerStorage is a ThrottlerStorage of @nestjs/throttler 6. What passes is counted, and nothing else: in a window of ttl that
// begins with the first request, or under policy, whose limits and blocks then hold in place of ttl, limit and blockDuration.
// It rejects if there is no decision.
export class StintThrottlerStorage {
  #limits
  #where

  constructor(limits, { prefix = 'throttler:', policy = undefined } = {}) {
    this.#limits = limits
    this.#where = { prefix, policy }
  }

  async increment(key, ttl, limit, blockDuration) {
    if (this.#where.policy === undefined && (!isWindow(ttl) || blockDuration !== ttl)) {
      throw new TypeError('stint: ttl must be a whole number of milliseconds from 1, and blockDuration absent: for blocks give a policy with a lockout')
    }
    const decision = await this.#limits.check(storeEntry('throttler', this.#where, key, ttl, limit))
    const shown = tightest(decision)
    return {
      totalHits: (shown?.used ?? 0) + (decision.allowed ? 0 : 1),
      timeToExpire: shown?.resetAt === undefined ? never : Math.ceil((shown.resetAt - decision.decidedAt) / 1000),
      isBlocked: !decision.allowed,
      timeToBlockExpire: decision.allowed ? 0 : decision.retryAfterSeconds ?? never,
    }
  }
}
