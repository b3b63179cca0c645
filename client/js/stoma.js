import { isWindow, windowEntry } from './window.js'

// ExactRateLimitStore is a RateLimitStore of Stoma: increment(key, windowSeconds) -> { count, resetAt }. The window begins with
// its first hit, resetAt is in milliseconds, and at resetAt a new window begins. It rejects if there is no decision.
export class ExactRateLimitStore {
  #limits
  #prefix

  constructor(limits, { prefix = '' } = {}) {
    this.#limits = limits
    this.#prefix = prefix
  }

  async increment(key, windowSeconds) {
    const windowMs = windowSeconds * 1000
    if (!isWindow(windowMs)) throw new TypeError('stint: windowSeconds must be a number of seconds above 0')
    const { limits } = await this.#limits.check(windowEntry('stoma', this.#prefix, key, windowMs), { mode: 'count' })
    return { count: limits[0].used, resetAt: limits[0].resetAt.getTime() }
  }
}

// adapter is for createGateway({ adapter }): the one line that changes.
export function adapter(limits, options) { return { rateLimitStore: new ExactRateLimitStore(limits, options) } }
