// Stands in for express-rate-limit 8 where the package cannot be had: it uses a store as that does, and nothing else of it.
export function rateLimit({ windowMs, limit, store, keyGenerator = (req) => req.ip, skipFailedRequests = false }) {
  store.init?.({ windowMs, limit })
  return async (req, res, next) => {
    try {
      const key = keyGenerator(req)
      const { totalHits, resetTime } = await store.increment(key)
      if (typeof totalHits !== 'number' || totalHits < 1) throw new TypeError('totalHits must be a positive number')
      if (!(resetTime instanceof Date)) throw new TypeError('resetTime must be a Date')
      res.set('RateLimit-Limit', String(limit)).set('RateLimit-Remaining', String(Math.max(0, limit - totalHits)))
      if (skipFailedRequests) res.on('finish', () => { if (res.statusCode >= 400) store.decrement(key) })
      if (totalHits <= limit) return next()
      res.set('Retry-After', String(Math.ceil((resetTime - Date.now()) / 1000)))
      res.status(429).send('Too many requests, please try again later.')
    } catch (error) {
      next(error)
    }
  }
}
