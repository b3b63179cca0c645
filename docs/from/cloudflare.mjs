// A Worker that is limited by stint. The policies are in cloudflare.yaml.
import { Stint, StintError, clientIP } from '@stint/client'
import { rateLimiter } from '@stint/client/cloudflare'
import { checkLimit, rateLimitKey, tooManyRequests } from '@stint/client/fetch'

let limits // one client for all requests of an isolate
const stint = (env) => (limits ??= new Stint({ addresses: [env.STINT_URL], token: env.STINT_TOKEN }))
const ip = clientIP({ header: 'cf-connecting-ip' })

async function perIP(request, env) {
  const result = await checkLimit(stint(env), { policy: 'per-ip', key: ip })(request)
  if (!result.allowed) return tooManyRequests(result, { error: 'rate_limited' })
  return new Response('hello\n', { headers: result.decision.headers })
}

async function osa(request, env) {
  const { allowed, reason } = await checkLimit(stint(env), { policy: 'osa', key: ip })(request)
  return Response.json({ allowed, reason }, { status: allowed ? 200 : 429 })
}

async function binding(request, env) {
  const RATE_LIMITER = rateLimiter(stint(env), { name: 'search', simple: { limit: 2, period: 86400 } })
  const { success } = await RATE_LIMITER.limit({ key: ip(request) })
  return new Response(success ? 'found\n' : 'slow down\n', { status: success ? 200 : 429 })
}

async function bucket(request, env) {
  const key = rateLimitKey({ user: verifiedSub, ip })
  const result = await checkLimit(stint(env), { policy: 'bucket', key })(request)
  return result.allowed ? new Response('in\n') : tooManyRequests(result)
}

// verifiedSub returns the subject of a token whose signature was checked, and nothing for any other.
async function verifiedSub() { return undefined }

const routes = { '/': perIP, '/osa': osa, '/search': binding, '/login': bucket }

export default {
  async fetch(request, env) {
    const { pathname } = new URL(request.url)
    if (pathname.startsWith('/static/')) return new Response('a file\n') // before the limit: files cost no check
    try {
      return await (routes[pathname] ?? perIP)(request, env)
    } catch (error) {
      if (!(error instanceof StintError) || !error.noDecision) throw error
      return new Response('try again\n', { status: 503, headers: { 'Retry-After': '1' } }) // a login must not open
    }
  },
}
