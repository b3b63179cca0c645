import type { Decision, GuardOptions, Stint } from './index.js'

/** The members of Express that the middleware uses. */
export interface ExpressResponse {
  set(name: string, value: string): unknown
  append(name: string, value: string): unknown
  status(code: number): this
  type(type: string): this
  send(body: string): unknown
}

/** Options: onDenied answers in place of the 429 (a challenge: 403) with problem+json; its headers are set already. */
export type LimitOptions<Req, Res> = GuardOptions<Req> & { onDenied?: (req: Req, res: Res, decision: Decision) => unknown }

/** Returns a middleware that counts a request before it goes on. req.stint is the decision. */
export function limit<Req = any, Res extends ExpressResponse = any>(limits: Stint, options: LimitOptions<Req, Res>):
  (req: Req, res: Res, next: (error?: any) => void) => Promise<unknown>
