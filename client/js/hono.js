import { guardOf, responseOf } from './guard.js'

// limit returns a middleware of Hono that counts a request before it goes on. Its key functions get Hono's context.
export function limit(limits, options) {
  const guard = guardOf(limits, options, 'limit')
  const { onDenied } = options
  return async (c, next) => {
    const verdict = await guard(c)
    c.set('stint', verdict.decision)
    let answer
    if (verdict.pass) await next()
    else if (verdict.decision && onDenied) answer = await onDenied(c, verdict.decision)
    else return responseOf(verdict)
    if (answer) c.res = answer
    if (c.res.status === 101) return // a WebSocket's, which cannot be made again
    for (const [name, value] of Object.entries(verdict.headers)) {
      c.header(name, value, { append: name === 'Access-Control-Expose-Headers' })
    }
  }
}
