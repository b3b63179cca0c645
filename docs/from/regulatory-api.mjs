// An API with plans whose keys stint knows. The policies are in regulatory-api.yaml.
import { Stint } from '@stint/client'
import { rateLimitMiddleware } from '@stint/client/fetch'

let limits // one client for all requests of an isolate
const stint = (env) => (limits ??= new Stint({ addresses: [env.STINT_URL], token: env.STINT_TOKEN }))

const withPlan = rateLimitMiddleware({ limits: stint, policy: 'plan', fail: 'closed' })

const trials = () => Response.json({ trials: [] })

export default {
  fetch(request, env, ctx) {
    if (new URL(request.url).pathname.startsWith('/static/')) return new Response('a file\n')
    return withPlan(request, env, ctx, trials)
  },
}
