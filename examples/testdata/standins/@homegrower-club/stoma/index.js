// Stands in for Stoma where the package cannot be had: it uses a rate limit store as that does, and nothing else of it.
export const rateLimit = ({ max, windowSeconds, keyGenerator, store }) => ({ max, windowSeconds, keyGenerator, store })

export function createGateway({ adapter, policies, routes }) {
  return {
    async fetch(request) {
      const headers = {}
      for (const { max, windowSeconds, keyGenerator, store = adapter.rateLimitStore } of policies) {
        const { count, resetAt } = await store.increment(keyGenerator(request), windowSeconds)
        if (!Number.isInteger(count) || !Number.isInteger(resetAt)) throw new TypeError('count and resetAt must be whole numbers')
        headers['X-RateLimit-Limit'] = String(max)
        headers['X-RateLimit-Remaining'] = String(Math.max(0, max - count))
        if (count > max) {
          headers['Retry-After'] = String(Math.max(1, Math.ceil((resetAt - Date.now()) / 1000)))
          return Response.json({ error: 'rate_limited' }, { status: 429, headers })
        }
      }
      const response = await routes[new URL(request.url).pathname](request)
      for (const [name, value] of Object.entries(headers)) response.headers.set(name, value)
      return response
    },
  }
}
