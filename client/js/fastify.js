import { StintError } from './error.js'
import { isWindow, onlyLimit, storeEntry } from './window.js'

// fastifyStore returns a store of @fastify/rate-limit 9 to 11: a class, of which the plugin makes an object for itself and one for
// each route that has a limit of its own. The window is the plugin's timeWindow and begins with its first hit; or, with policy,
// the one limit of that policy. Like all stores of the plugin it counts denied requests too.
//
// Without a decision the request fails with 503. fail: 'open' lets it pass. A mistake, such as an unknown policy, fails it in
// both modes; the plugin's own skipOnError would hide it, and is refused.
export function fastifyStore(limits, { prefix = 'rl:', policy, fail = 'closed', onError = () => {}, timeoutMs } = {}) {
  if (fail !== 'closed' && fail !== 'open') throw new TypeError("stint: fastifyStore: fail must be 'closed' (503) or 'open'")

  return class FastifyStore {
    #prefix
    #windowMs // of plugins that do not say it with each hit

    constructor(params, route = prefix) {
      for (const option of ['skipOnError', 'continueExceeding', 'exponentialBackoff']) {
        if (params?.[option]) throw new TypeError(`stint: ${option} is not for this store${alternatives[option]}`)
      }
      this.#prefix = route
      this.#windowMs = params?.timeWindow
    }

    // child is the store of a route, which counts apart from the others.
    child(params) {
      const { method = '', url = '' } = params.routeInfo ?? {}
      return new FastifyStore(params, `${this.#prefix}${method}${url}-`)
    }

    incr(key, callback, timeWindow = this.#windowMs) { this.#ask('count', key, callback, timeWindow) }

    read(key, callback, timeWindow = this.#windowMs) { this.#ask('peek', key, callback, timeWindow) }

    #ask(mode, key, callback, windowMs) {
      this.#hitsOf(mode, key, windowMs).then((hits) => [null, hits], (error) => this.#failed(error)).catch((error) => [error]).then((answer) => callback(...answer))
    }

    async #hitsOf(mode, key, windowMs) {
      if (policy === undefined && !isWindow(windowMs)) throw new TypeError('stint: timeWindow must be a whole number of milliseconds from 1')
      const decision = await limits.check(storeEntry('fastify', { prefix: this.#prefix, policy }, String(key ?? ''), windowMs), { mode, timeoutMs })
      const { used, resetAt } = onlyLimit(decision, policy)
      return { current: used, ttl: used > 0 && resetAt ? Math.max(0, resetAt - decision.decidedAt) : 0 }
    }

    #failed(error) {
      if (!(error instanceof StintError) || !error.noDecision && !error.noRoom) return [error]
      onError(error)
      if (fail === 'open' && !error.noRoom) return [null, { current: 0, ttl: 0 }]
      return [Object.assign(new Error('the limits of the request could not be checked', { cause: error }), { statusCode: 503 })]
    }
  }
}

const alternatives = {
  skipOnError: ": it hides mistakes too; say fail: 'open'",
  continueExceeding: ': take a policy with a sliding_log',
  exponentialBackoff: ': take a policy with a lockout',
}
