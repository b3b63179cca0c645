import { isWindow, onlyLimit, prefixed, storeEntry } from './window.js'

const remembered = 10000 // decisions that decrement can give back; the oldest are forgotten

// StintStore is a store of express-rate-limit 7 and 8, and of hono-rate-limiter. Each limiter needs one of its own. The window
// is windowMs of the limiter and begins with its first hit; or, with policy, the one limit of that policy. Like all stores of
// these packages it counts denied requests too. It rejects if there is no decision, which they answer by an error unless
// passOnStoreError is set. But decrement never does: they give back after the answer, where a rejection would end the process.
export class StintStore {
  localKeys = false
  #limits
  #policy
  #windowMs
  #onError
  #decisions = new Map() // ids by key, oldest first; the key that was counted last stands last
  #size = 0 // ids in it

  constructor(limits, { prefix = 'rl:', policy = undefined, onError = () => {} } = {}) {
    this.#limits = limits
    this.#onError = onError
    this.prefix = prefix
    this.#policy = policy
  }

  init({ windowMs }) {
    if (!isWindow(windowMs)) throw new TypeError('stint: windowMs must be a whole number of milliseconds from 1')
    this.#windowMs = windowMs
  }

  async get(key) {
    const [window] = await this.#limits.get(this.#entry(key))
    return window.used > 0 ? { totalHits: window.used, resetTime: window.resetAt } : undefined
  }

  async increment(key) {
    const decision = await this.#limits.check(this.#entry(key), { mode: 'count' })
    const window = onlyLimit(decision, this.#policy)
    this.#remember(key, decision.decisionId)
    return { totalHits: window.used, resetTime: window.resetAt }
  }

  // decrement gives back the newest of this store's decisions on the key that it remembers. If it cannot, onError hears why, and the
  // hit stays counted.
  async decrement(key) {
    const ids = this.#decisions.get(key)
    const decisionId = ids?.pop()
    if (decisionId === undefined) return
    this.#size--
    if (ids.length === 0) this.#decisions.delete(key)
    await this.#limits.settle({ decisionId }, 'cancel').catch(this.#onError)
  }

  // resetKey needs policy: the cluster resets keys of policies, not windows that requests bring along.
  async resetKey(key) {
    if (this.#policy === undefined) throw new TypeError('stint: resetKey needs a store with policy: windows that requests bring along cannot be reset')
    await this.#limits.adjust({ policy: this.#policy, key: prefixed(this.prefix, key) }, 'reset')
  }

  #entry(key) {
    if (this.#policy === undefined && this.#windowMs === undefined) {
      throw new TypeError('stint: the store has no limiter yet: it takes windowMs from it (init)')
    }
    return storeEntry('express-rate-limit', { prefix: this.prefix, policy: this.#policy }, key, this.#windowMs)
  }

  #remember(key, decisionId) {
    const ids = this.#decisions.get(key) ?? []
    this.#decisions.delete(key)
    this.#decisions.set(key, ids)
    ids.push(decisionId)
    if (++this.#size <= remembered) return
    const [oldest, itsIds] = this.#decisions.entries().next().value
    itsIds.shift()
    this.#size--
    if (itsIds.length === 0) this.#decisions.delete(oldest)
  }
}
