import type { Decision, GuardOptions, Stint } from './index.js'

/** The members of Hono's context that the middleware uses. */
export interface HonoContext {
  req: { raw: Request }
  res: Response
  set: (key: any, value: any) => void
  header: (name: any, value?: string, options?: { append?: boolean }) => void
}

/** Options: onDenied answers in place of the 429 (a challenge: 403) with problem+json; the headers are added. */
export type LimitOptions<C> = GuardOptions<C> & { onDenied?: (c: C, decision: Decision) => Response | Promise<Response> }

/** Returns a middleware that counts a request before it goes on. c.get('stint') is the decision. */
export function limit<C extends HonoContext = any>(limits: Stint, options: LimitOptions<C>):
  (c: C, next: () => Promise<void>) => Promise<Response | void>
