import { guardOf } from './guard.js'

// limit returns a middleware of Express that counts a request before it goes on. See README.md for its options.
export function limit(limits, options) {
  const guard = guardOf(limits, options, 'limit')
  const { onDenied } = options
  return async (req, res, next) => {
    let verdict
    try {
      verdict = await guard(req)
    } catch (error) {
      return next(error)
    }
    req.stint = verdict.decision
    for (const [name, value] of Object.entries(verdict.headers)) {
      if (name === 'Access-Control-Expose-Headers') res.append(name, value)
      else res.set(name, value)
    }
    if (verdict.pass) return next()
    if (!verdict.decision || !onDenied) return res.status(verdict.status).type(verdict.type).send(verdict.body)
    try {
      return await onDenied(req, res, verdict.decision)
    } catch (error) {
      return next(error)
    }
  }
}
