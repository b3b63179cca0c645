import { safeKey } from './key.js'
import { millis } from './message.js'

const quotaMost = 2 ** 53 // the store counts, and its caller compares

// windowEntry is an entry with a window of its own that opens with the first hit. Its name has the length, so that two windows
// of one key count apart.
export function windowEntry(label, prefix, key, windowMs, quota = quotaMost) {
  const limit = { name: `window-${windowMs}ms`, quota: String(quota), fixedWindow: { period: millis(windowMs, 'window'), anchor: 'ANCHOR_FIRST_HIT' } }
  return { policy: label, key: prefixed(prefix, key), limits: [limit] }
}

// storeEntry is what a store counts: by its policy if it has one, else in a window of its own.
export function storeEntry(label, { prefix, policy }, key, windowMs, quota) {
  return policy === undefined ? windowEntry(label, prefix, key, windowMs, quota) : { policy, key: prefixed(prefix, key) }
}

// onlyLimit returns the one limit that a store counts.
export function onlyLimit({ limits: [window, ...others] }, policy) {
  if (others.length > 0) throw new TypeError(`stint: policy ${policy} has ${others.length + 1} limits: a store counts one`)
  return window
}

// prefixed returns the key of a store. An empty one is refused by the check.
export function prefixed(prefix, key) { return typeof key === 'string' && key !== '' ? safeKey(prefix + key) : '' }

export function isWindow(ms) { return Number.isSafeInteger(ms) && ms >= 1 }
