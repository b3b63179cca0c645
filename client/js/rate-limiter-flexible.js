import { tightest } from './message.js'
import { isWindow, prefixed, storeEntry } from './window.js'

// rateLimiterStint returns a limiter class for rate-limiter-flexible 11, made of two of its own. Its points pass in each duration, of
// seconds, that begins with the first; or what policy says. A denial rejects with a RateLimiterRes and counts nothing; no decision
// rejects with a StintError.
export function rateLimiterStint({ RateLimiterCompatibleAbstract, RateLimiterRes }) {
  return class RateLimiterStint extends RateLimiterCompatibleAbstract {
    #limits
    #where
    #points
    #windowMs

    constructor({ limits, points, duration, policy, keyPrefix = 'rlflx', ...others }) {
      super()
      const [other] = Object.keys(others)
      if (other !== undefined) throw new TypeError(`stint: RateLimiterStint: there is no option ${other} here`)
      if (policy === undefined && !(isWindow(points) && isWindow(duration * 1000))) {
        throw new TypeError('stint: RateLimiterStint: give points and duration, whole numbers from 1, or a policy')
      }
      this.#limits = limits
      this.#where = { prefix: `${keyPrefix}:`, policy }
      this.#points = points
      this.#windowMs = duration * 1000
    }

    get keyPrefix() { return this.#where.prefix.slice(0, -1) }

    get blockDuration() { return 0 }

    get execEvenly() { return false }

    async consume(key, points = 1) {
      const decision = await this.#limits.check({ ...this.#entry(key), cost: points })
      const res = resOf(tightest(decision), decision, points)
      if (decision.allowed) return res
      throw res
    }

    async penalty(key, points = 1) {
      const decision = await this.#limits.check({ ...this.#entry(key), cost: points }, { mode: 'count' })
      return resOf(tightest(decision), { ...decision, allowed: true }, points)
    }

    async get(key) {
      const decision = await this.#limits.check(this.#entry(key), { mode: 'peek' })
      const shown = tightest(decision)
      return shown === undefined || shown.used === 0 ? null : resOf(shown, { ...decision, allowed: true }, 0)
    }

    // delete needs policy: the cluster resets keys of policies, not windows that requests bring along.
    async delete(key) {
      if (this.#where.policy === undefined) throw new TypeError('stint: delete needs a policy: windows that requests bring along cannot be reset')
      await this.#limits.adjust({ policy: this.#where.policy, key: prefixed(this.#where.prefix, key) }, 'reset')
      return true
    }

    #entry(key) { return storeEntry('rate-limiter-flexible', this.#where, key, this.#windowMs, this.#points) }
  }

  function resOf(shown, { allowed, decidedAt, retryAfterMs }, points) {
    const used = shown?.used ?? 0
    const wait = allowed ? shown?.resetAt && shown.resetAt - decidedAt : retryAfterMs
    return new RateLimiterRes(shown?.remaining ?? 0, wait ?? -1, allowed ? used : used + points, allowed && points > 0 && used === points)
  }
}
