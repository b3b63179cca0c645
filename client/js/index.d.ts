/** What to count: one policy, one key. */
export interface Entry {
  /** Name of the policy. Required unless limits are given. */
  policy?: string
  /** The counted thing: 1 to 512 bytes. A missing or empty key is refused. Text from outside belongs in safeKey first. */
  key: string
  /** Units to spend. Absent: 1. */
  cost?: number
  /** Tier to apply. Absent: that of the key's override, else the policy's default tier. */
  tier?: string
  /** Limits in place of a policy's, in the JSON of the API. */
  limits?: object[]
}

/** What every call takes. */
export interface CallOptions {
  /** Milliseconds for the whole call with all its attempts. Absent: the client's. */
  timeoutMs?: number
  /** Ends the call. What was sent may have been counted. */
  signal?: AbortSignal
  /** Absent: the client's. */
  namespace?: string
}

/** What calls take that count. */
export interface CountingOptions extends CallOptions {
  /**
   * The same id with the same request counts once. Absent: a new one for each call, so that a retry counts once.
   * null: none; then a request that may have been counted is not repeated, and a policy's deny_cache applies.
   */
  idempotencyId?: string | null
}

/** What check takes. */
export interface CheckOptions extends CountingOptions {
  /** enforce (default); count: count whatever the limits say; peek: do not count; partial: take what fits. */
  mode?: 'enforce' | 'count' | 'peek' | 'partial'
  /** Add the arithmetic in words. */
  explain?: boolean
}

/** What reserve takes. */
export interface ReserveOptions extends CheckOptions {
  /** Lifetime of the hold in milliseconds. Absent: 60,000. */
  ttlMs?: number
  /** Fate of a hold that is not settled in time. Absent: the policy's. */
  onExpire?: 'cancel' | 'commit'
}

/** What attempt takes. */
export interface AttemptOptions extends ReserveOptions {
  /** How it is settled when the work ends. Absent: commit. */
  done?: Settlement
  /** How it is settled when the work throws. Absent: cancel. */
  raised?: Settlement
}

/** What get takes. */
export interface GetOptions extends CallOptions {
  /** Allow the answering node to read its own replicas. */
  staleOk?: boolean
}

/** Allowed or denied, with the state of every limit. */
export interface Decision {
  allowed: boolean
  /** Not allowed, and only limits with on_exceeded: challenge say no: ask for a proof that there is a person. */
  challenge: boolean
  /** Handle for a refund. Empty for a denial. */
  decisionId: string
  limits: LimitStatus[]
  /** The limits that denied, as in "login/account-15m". */
  deniedBy: string[]
  /** The policy's text for a denied caller. Safe to show. */
  reason: string
  /** Exact wait after a denial. undefined: no wait helps. */
  retryAfterMs: number | undefined
  /** The same in whole seconds, rounded up, 1 at least. */
  retryAfterSeconds: number | undefined
  decidedAt: Date | undefined
  /** Headers to copy into a response, in the policy's styles; Retry-After on every denial that ends. */
  headers: Record<string, string>
  /** Handle of the hold that reserve opened. */
  holdId: string
  holdExpiresAt: Date | undefined
  /** The request was counted before, under the same id, and not again. */
  replayed: boolean
  /** Answered from a lease, as of its grant: used contains all of the lease, and there is no decisionId. */
  leased: boolean
  shadowDenied: boolean
  explanation: string
}

/** State of one limit. Dates are rounded up to milliseconds. */
export interface LimitStatus {
  policy: string
  limit: string
  key: string
  quota: number
  used: number
  held: number
  remaining: number
  granted: number
  windowStart: Date | undefined
  resetAt: Date | undefined
  retryAfterMs: number | undefined
  allowed: boolean
  shadow: boolean
  /** Where it has no room, this limit asks for a challenge. */
  soft: boolean
  unlimited: boolean
  lockoutLevel: number
  blockedUntil: Date | undefined
}

/** The bill of one key for one period. What is owed is units - credits + corrections. */
export interface UsageRecord {
  id: string
  namespace: string
  policy: string
  meter: string
  key: string
  start: Date
  end: Date
  state: 'open' | 'closed' | 'final'
  units: number
  credits: number
  corrections: number
  revision: number
  recovered: boolean
  timeZone: string
}

/** A page of bills. */
export interface UsagePage {
  records: UsageRecord[]
  /** Empty: this is the last page. */
  nextPageToken: string
  /** What is final by that of the last page is complete. */
  completeThrough: Date
  /** Keys whose bills their owner cannot read. */
  unreadable: { policy: string; key: string }[]
}

/** How a hold ends or goes on. */
export type Settlement = 'commit' | 'cancel' | 'success' | 'failed'
  | { commit: { actualCost?: number[]; overage?: 'clamp' | 'debt' | 'reject' } }
  | { extend: { ttlMs: number } }

/** Where the cluster is. */
export interface Config {
  /** Base URLs of some nodes, as in http://127.0.0.1:7400. The next one is asked when one does not answer. */
  addresses: string[]
  /** Sent to https:// addresses and to this machine only. */
  token?: string
  /** Milliseconds for a call with all its attempts. Absent: 5,000. */
  timeoutMs?: number
  /** Given to requests that name none. */
  namespace?: string
  /** Sends the requests. Absent: the global fetch. */
  fetch?: (input: string, init?: RequestInit) => Promise<Response>
}

/** Client of one cluster. Every call rejects with a StintError if there is no decision. */
export class Stint {
  constructor(config: Config)
  /** Decides and counts: all entries or none. */
  check(entries: Entry | Entry[], options?: CheckOptions): Promise<Decision>
  /** Makes independent checks in one call: for each its decision, or the error of the one that failed. */
  checkBatch(list: (Entry | Entry[])[], options?: CheckOptions & { idempotencyId?: null }): Promise<(Decision | StintError)[]>
  /** Takes units as a hold that settle ends. */
  reserve(entries: Entry | Entry[], options?: ReserveOptions): Promise<Decision>
  /** Ends or extends a hold, or gives back what a decision took. */
  settle(target: { holdId?: string; decisionId?: string }, action: Settlement, options?: CountingOptions): Promise<Decision>
  /** Reserves for a piece of work, which gets the decision, and settles by its end. A denied one has nothing to settle. */
  attempt<T>(entries: Entry | Entry[], work: (decision: Decision) => T | Promise<T>, options?: AttemptOptions): Promise<T>
  /** Returns the state of keys and changes nothing. */
  get(entries: Entry | Entry[], options?: GetOptions): Promise<LimitStatus[]>
  /** Resets or unblocks a key by hand; kept in the audit log. */
  adjust(key: { policy: string; key: string; limit?: string; note?: string }, action: 'reset' | 'unblock', options?: CountingOptions): Promise<LimitStatus[]>
  /** Gives one key a tier or quotas of its own, by the name of the limit, in place of an override that it has. Kept in the audit log. */
  putOverride(override: { policy: string; key: string; tier?: string; limits?: Record<string, { quota?: number; refill?: number; rate?: number }>; expiresAt?: Date; note?: string }, options?: CountingOptions): Promise<void>
  /** Removes the override of one key. Whether there was one. */
  deleteOverride(key: { policy: string; key: string; note?: string }, options?: CountingOptions): Promise<boolean>
  /** Ends everything that the cluster keeps of one key, under all policies of its namespace. bills: those too; without it a key that has any is not forgotten. */
  forget(key: { key: string; note?: string; bills?: boolean }, options?: CallOptions): Promise<void>
  /** Returns a page of bills. period: a year, a month or a day in which periods start, as in 2026-10. pageToken: the nextPageToken of the page before, with everything else as for that one. */
  listUsage(of?: { policy?: string; key?: string; period?: string; pageSize?: number; pageToken?: string }, options?: CallOptions): Promise<UsagePage>
  /** Adds units to the bill of one key, or takes some away, and returns the bill. It moves no limit; kept in the audit log. isNew: the key may be one that was never billed. undefined: it was corrected under this id before, and the answer is forgotten. */
  correctUsage(of: { policy: string; key: string; units: number; note: string; meter?: string; period?: string; isNew?: boolean }, options?: CountingOptions): Promise<UsageRecord | undefined>
}

/** Why there is no decision. It is never a denial. */
export class StintError extends Error {
  constructor(code: string, message: string, maybeApplied?: boolean, cause?: unknown)
  /** Name of the RPC code, as in "unavailable". */
  readonly code: string
  /** Counted once or not at all. false: certainly not counted. */
  readonly maybeApplied: boolean
  /** The cluster could not decide. false: the request will never be right, whatever its fail mode. */
  readonly noDecision: boolean
  /** The cluster refuses another key (max_keys, or a full shard): answer 503, whatever the fail mode. */
  readonly noRoom: boolean
  /** The policy refuses keys without an override, and this key has none. */
  readonly unknownKey: boolean
}

/** Where the client's address is. */
export interface ClientIPOptions<R = any> {
  /** A header that the platform overwrites, as cf-connecting-ip. Not X-Forwarded-For. */
  header?: string
  /** Addresses and ranges whose X-Forwarded-For is read, from the right. */
  trustedProxies?: string[]
  /** Address of the peer. Absent: that of Node's socket. */
  peer?: (request: R) => string | undefined
}

/** Returns a key function: "ip:192.0.2.7", "ip:2001:db8:1:2::", or undefined if no address can be believed. */
export function clientIP<R = any>(options?: ClientIPOptions<R>): (request: R) => string | undefined

/** Makes a key of text from outside, whole or as parts by name. undefined: something is missing, empty or no Unicode. */
export function safeKey(value: string | Record<string, string | undefined> | undefined | null): string | undefined

/** What a key function returns: text or parts, made safe by the middleware; undefined or empty is missing. */
export type Key = string | Record<string, string | undefined> | undefined | null

/** One entry of a middleware. */
export interface GuardEntry<R> {
  policy: string
  key: (request: R) => Key | Promise<Key>
  cost?: number | ((request: R) => number | Promise<number>)
}

/** What every middleware takes besides one entry, or entries. */
export interface GuardSettings {
  /** What happens while the cluster gives no decision. closed: 503. open: the request goes on, with Stint-Failed: open. */
  fail: 'closed' | 'open'
  /** What happens to a request without a key. deny (default): 400. skip: the entry is left out. shared: all share one key. */
  onMissing?: 'deny' | 'skip' | 'shared'
  /** Hears each failure to decide, for metrics. */
  onError?: (error: StintError) => void
  /** Milliseconds for the check. Absent: the client's. */
  timeoutMs?: number
  /** null: send no id, for policies with a deny_cache. */
  idempotencyId?: null
}

/** Options of a middleware. */
export type GuardOptions<R> = GuardSettings & (GuardEntry<R> & { entries?: undefined }
  | { entries: GuardEntry<R>[]; policy?: undefined; key?: undefined; cost?: undefined })
