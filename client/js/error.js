// StintError says why there is no decision. It is never a denial. Its maybeApplied tells the two fates apart:
//
//	false  certainly not counted: the request was refused, or no connection could be made
//	true   counted once or not at all: a request was sent, and no answer says which
export class StintError extends Error {
  constructor(code, message, maybeApplied = false, cause = undefined) {
    super(`stint: ${code}: ${message}`, cause === undefined ? undefined : { cause })
    this.name = 'StintError'
    this.code = code // name of the RPC code, as in "unavailable"
    this.maybeApplied = maybeApplied
  }

  // noDecision reports whether the cluster could not decide, for whatever reason: the case for a fail mode. It is false for a
  // request that will never be right, which no fail mode may hide, and for one whose key has no room.
  get noDecision() { return noDecisions.has(this.code) && !this.noRoom }

  // noRoom reports whether the cluster refuses another key, since a policy has max_keys of them or a shard is full. Whoever can make
  // keys can cause it, so a request must not pass for it. Known keys are still decided.
  get noRoom() { return /until old ones end/.test(this.message) }

  // unknownKey reports whether the policy refuses keys without an override (unknown_key: deny) and this key has none.
  get unknownKey() { return /^stint: not_found: (check\.)?entries\[\d+\]\.key: /.test(this.message) }
}

const noDecisions = new Set(['unavailable', 'aborted', 'deadline_exceeded', 'canceled', 'internal', 'unknown', 'data_loss',
  'resource_exhausted'])

// invalid returns the error of a request that is refused before it is sent.
export function invalid(field, problem) { return new StintError('invalid_argument', `${field}: ${problem}`) }

// refused returns the error of an answer that is not 200.
export function refused(status, text) {
  let answer
  try {
    answer = JSON.parse(text)
  } catch {
    answer = null
  }
  const detail = answer?.details?.find?.((d) => d?.type === 'stint.v1.Failure' && typeof d.value === 'string')
  if (typeof answer?.code !== 'string' || detail === undefined) {
    return new StintError('aborted', `an answer ${status} that is not stint's: ${text.slice(0, 200)}`, true)
  }
  return new StintError(answer.code, String(answer.message ?? ''), maybeAppliedOf(detail.value))
}

// maybeAppliedOf reads field 3 of a stint.v1.Failure in protobuf, base64. What cannot be read may have been applied.
function maybeAppliedOf(base64) {
  try {
    const bytes = Uint8Array.from(atob(base64.replace(/-/g, '+').replace(/_/g, '/')), (c) => c.charCodeAt(0))
    let at = 0
    const varint = () => {
      let value = 0
      for (let shift = 1; ; shift *= 128) {
        if (at >= bytes.length) throw new RangeError('a Failure is cut off')
        value += (bytes[at] & 127) * shift
        if (bytes[at++] < 128) return value
      }
    }
    while (at < bytes.length) {
      const tag = varint()
      if (tag === (3 << 3)) return varint() !== 0
      if ((tag & 7) !== 2) return true // no field of a Failure
      const length = varint()
      at += length
    }
    return at !== bytes.length
  } catch {
    return true
  }
}

// failed returns the error of a fetch that had no answer. unreached is true if no connection could be made.
export function failed(address, cause) {
  if (neverSent(cause)) {
    return new StintError('unavailable', `${address} cannot be reached: ${reasonOf(cause)}`, false, cause)
  }
  return new StintError('aborted', `${address} gave no answer: ${reasonOf(cause)}`, true, cause)
}

function reasonOf(error) { return error?.cause?.message || error?.cause?.code || error?.message || String(error) }

// neverSent knows the errors of Node's fetch that mean that no request left: no connection, no name, or a certificate that was
// not accepted. Other runtimes have no such codes. There every failure may have been applied, and the id makes a retry safe.
function neverSent(error) {
  const cause = error?.cause
  const noConnection = (e) => e?.syscall === 'connect' || e?.syscall === 'getaddrinfo' || neverSentCodes.has(e?.code)
  return noConnection(cause) || Array.isArray(cause?.errors) && cause.errors.length > 0 && cause.errors.every(noConnection)
}

const neverSentCodes = new Set(['UND_ERR_CONNECT_TIMEOUT', 'CERT_HAS_EXPIRED', 'CERT_NOT_YET_VALID', 'DEPTH_ZERO_SELF_SIGNED_CERT',
  'ERR_SSL_WRONG_VERSION_NUMBER', 'ERR_TLS_CERT_ALTNAME_INVALID', 'SELF_SIGNED_CERT_IN_CHAIN', 'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY', 'UNABLE_TO_VERIFY_LEAF_SIGNATURE'])
