// A Stoma gateway whose counts are in stint.
import { createGateway, rateLimit } from '@homegrower-club/stoma'
import { Stint, clientIP } from '@stint/client'
import { limited } from '@stint/client/fetch'
import { ExactRateLimitStore, adapter } from '@stint/client/stoma'

const limits = new Stint({ addresses: [process.env.STINT_URL], token: process.env.STINT_TOKEN })

const gateway = createGateway({
  adapter: adapter(limits),
  policies: [rateLimit({ max: 5, windowSeconds: 3600, keyGenerator: clientIP({ header: 'cf-connecting-ip' }) })],
  routes: { '/': () => new Response('hello\n') },
})

// A store with a key prefix, and a log of its own, for one policy.
class LoggedStore extends ExactRateLimitStore {
  async increment(key, windowSeconds) {
    const { count, resetAt } = await super.increment(key, windowSeconds)
    console.log(JSON.stringify({ key, count, resetAt }))
    return { count, resetAt }
  }
}

const logged = createGateway({
  adapter: {},
  policies: [rateLimit({ max: 5, windowSeconds: 3600, keyGenerator: clientIP({ header: 'cf-connecting-ip' }), store: new LoggedStore(limits, { prefix: 'logged:' }) })],
  routes: { '/logged': () => new Response('hello\n') },
})

// In front of the gateway: a decision, where a denial counts nothing.
const front = limited(limits, { policy: 'per-ip', key: clientIP({ header: 'cf-connecting-ip' }), fail: 'open' },
  () => new Response('hello\n'))

export default {
  fetch(request) {
    const { pathname } = new URL(request.url)
    if (pathname.startsWith('/static/')) return new Response('a file\n')
    if (pathname === '/front') return front(request)
    return (pathname === '/logged' ? logged : gateway).fetch(request)
  },
}
