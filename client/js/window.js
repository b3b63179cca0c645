import { safeKey } from './key.js'
import { millis } from './message.js'

const quotaMost = 2 ** 53 // the store counts, and its caller compares

// windowEntry is an entry with a window of its own that opens with the first hit. Its name has the length, so that two windows
// of one key count apart.
export function windowEntry(label, prefix, key, windowMs) {
  const limit = { name: `window-${windowMs}ms`, quota: String(quotaMost), fixedWindow: { period: millis(windowMs, 'window'), anchor: 'ANCHOR_FIRST_HIT' } }
  return { policy: label, key: prefixed(prefix, key), limits: [limit] }
}

// prefixed returns the key of a store. An empty one is refused by the check.
export function prefixed(prefix, key) { return typeof key === 'string' && key !== '' ? safeKey(prefix + key) : '' }

export function isWindow(ms) { return Number.isSafeInteger(ms) && ms >= 1 }
