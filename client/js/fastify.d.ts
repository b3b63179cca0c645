import type { Stint, StintError } from './index.js'

/** Hits in a window that counts, and the milliseconds until it is over. */
export type Hits = { current: number; ttl: number }

/** What a store calls when it knows: an error, or the hits. */
export type HitsCallback = (error: Error | null, result?: Hits) => void

/** A store of @fastify/rate-limit 9 to 11. */
export interface FastifyStore {
  incr(key: string, callback: HitsCallback, timeWindow?: number, max?: number): void
  read(key: string, callback: HitsCallback, timeWindow?: number, max?: number): void
  child(params: object): FastifyStore
}

/** Returns the class for the plugin's option store. */
export function fastifyStore(limits: Stint, options?: {
  prefix?: string
  policy?: string
  /** What happens while the cluster gives no decision. closed (default): 503. open: the request passes, without a mark. */
  fail?: 'closed' | 'open'
  /** Hears each failure to decide, for metrics. */
  onError?: (error: StintError) => void
  timeoutMs?: number
}): new (params?: object) => FastifyStore
