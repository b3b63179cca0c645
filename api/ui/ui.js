// The dashboard: the screens of one page, drawn from the public API. Every text that comes from outside goes through textContent, so
// that a key cannot be markup. The screen in view asks again every two seconds while the page is visible, one request at a time.

const secondsPerLook = 2
const looksKept = 300 // 10 minutes
const denialsShown = 100
const limitsShown = 12

// What the page remembers between two looks.
const memory = {
  token: sessionStorage.getItem('token') ?? '',
  rates: new Map(), // policy: decisions per second, the newest last
  asked: 0, // counts the questions before actions
  declined: false, // the operator closed the question for a token: it comes back with another screen
  skew: 0, // how far the node's clock is ahead of this machine's, in ms
  letters: '', // dead letters, as the line above every screen tells them
  turn: 0, // counts changes of the screen: an answer for an earlier one is dropped
  live: undefined, // the stream of denials, while its screen is in view
  stop: undefined, // ends that stream
}

class Failure extends Error {
  constructor(code, message) {
    super(message)
    this.code = code
  }
}

// call asks one procedure, as any client that speaks JSON does.
async function call(procedure, message = {}) {
  const headers = headersOf('application/json')
  let response
  try {
    response = await fetch('../stint.v1.' + procedure, { method: 'POST', headers, body: JSON.stringify(message), signal: AbortSignal.timeout(10_000) })
  } catch {
    throw new Failure('unreachable', 'This node does not answer.')
  }
  const answer = await response.json().catch(() => ({}))
  if (!response.ok) throw new Failure(answer.code ?? String(response.status), answer.message ?? response.statusText)
  const told = Date.parse(response.headers.get('Date')) + 500 // it has whole seconds
  if (Math.abs(told - now()) > 1500) memory.skew = told - Date.now()
  return answer
}

function headersOf(type) {
  const headers = { 'Content-Type': type }
  if (memory.token) headers.Authorization = 'Bearer ' + memory.token
  return headers
}

// watch hands each event of a stream over until the signal ends it. A message of Connect's streams has a byte of flags and four of
// length before it; the one with flag 2 is the end, with the error if there is one.
async function watch(message, signal, each) {
  const body = new TextEncoder().encode('\0\0\0\0\0' + JSON.stringify(message))
  new DataView(body.buffer).setUint32(1, body.length - 5)
  const response = await fetch('../stint.v1.ObserveService/Watch', { method: 'POST', headers: headersOf('application/connect+json'), body, signal })
  if (!response.ok) {
    const answer = await response.json().catch(() => ({}))
    throw new Failure(answer.code ?? String(response.status), answer.message ?? response.statusText)
  }
  const reader = response.body.getReader()
  let read = new Uint8Array()
  for (;;) {
    const { done, value } = await reader.read()
    if (done) throw new Failure('unreachable', 'The stream has ended.')
    const more = new Uint8Array(read.length + value.length)
    more.set(read)
    more.set(value, read.length)
    read = more
    while (read.length >= 5) {
      const length = new DataView(read.buffer, read.byteOffset).getUint32(1)
      if (read.length < 5 + length) break
      const event = JSON.parse(new TextDecoder().decode(read.subarray(5, 5 + length)))
      if (read[0] & 2) throw new Failure(event.error?.code ?? 'unreachable', event.error?.message ?? 'The stream has ended.')
      read = read.subarray(5 + length)
      each(event)
    }
  }
}

// h makes an element. Attributes that are functions are listeners.
function h(name, attributes = {}, ...children) {
  return build(document.createElement(name), attributes, children)
}

function s(name, attributes = {}, ...children) {
  return build(document.createElementNS('http://www.w3.org/2000/svg', name), attributes, children)
}

function build(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') element.addEventListener(name, value)
    else if (value !== undefined && value !== false) element.setAttribute(name, value === true ? '' : value)
  }
  element.append(...children.flat(Infinity).filter((child) => child !== undefined && child !== ''))
  return element
}

const unseen = 'This token may not see the state of the cluster: that takes the operation observe.'

const byId = (id) => document.getElementById(id)
const namespace = () => byId('namespace').value.trim() || 'default'

// Words and figures.

const grouped = new Intl.NumberFormat('en')
const compact = new Intl.NumberFormat('en', { notation: 'compact' })
const count = (n) => grouped.format(BigInt(n ?? 0))
const share = (part, whole) => (whole > 0 ? (100 * part) / whole : 0)
const percent = (value) => (value === 0 ? '0 %' : value < 0.1 ? '<0.1 %' : value.toFixed(1) + ' %')

function bytes(n) {
  let value = Number(n ?? 0)
  for (const unit of ['B', 'KiB', 'MiB', 'GiB']) {
    if (value < 1024) return value.toFixed(value < 10 && unit !== 'B' ? 1 : 0) + ' ' + unit
    value /= 1024
  }
  return value.toFixed(1) + ' TiB'
}

// span is a duration of the API ("0.0015s") for people.
function span(text) {
  const seconds = parseFloat(text ?? '0')
  const size = Math.abs(seconds)
  if (size === 0) return '0'
  if (size < 1e-3) return Math.round(seconds * 1e6) + ' µs'
  if (size < 1) return (seconds * 1e3).toPrecision(3) + ' ms'
  for (const [unit, of] of [['s', 1], ['min', 60], ['h', 3600]]) {
    if (size < of * (unit === 'h' ? 48 : 120)) return Number((seconds / of).toFixed(1)) + ' ' + unit
  }
  return Number((seconds / 86400).toFixed(1)) + ' d'
}

// now is the time of the node that answers: this machine's clock may be wrong.
const now = () => Date.now() + memory.skew
const clock = () => new Date(now()).toISOString().slice(11, 19) + ' UTC'
const moment = (text) => (text ? text.slice(0, 19).replace('T', ' ') + ' UTC' : 'never')

function ahead(text, at = new Date(now()).toISOString()) {
  if (!text) return 'now'
  const seconds = (Date.parse(text) - Date.parse(at)) / 1000
  return seconds <= 0 ? 'now' : 'in ' + span(seconds + 's')
}

// Drawings. Each stands beside its figure in a table.

function bar(percent, kind = '', width = 90) {
  const part = Math.max(0, Math.min(width, (width * percent) / 100))
  return s('svg', { class: 'bar', width, height: 8, 'aria-hidden': 'true' },
    s('rect', { class: 'full', width, height: 8, rx: 3 }), s('rect', { class: 'part ' + kind, width: part, height: 8, rx: 3 }))
}

function curve(values, width = 120, height = 24, kind = '') {
  const most = Math.max(...values, 1e-9)
  const points = values.map((v, i) => `${(width * i) / Math.max(1, values.length - 1)},${height - 2 - ((height - 4) * v) / most}`)
  return s('svg', { width, height, 'aria-hidden': 'true' }, s('polyline', { class: 'curve ' + kind, points: points.join(' ') }))
}

// lines draws what all nodes answered in the last ten minutes, in periods of ten seconds: each line beside its newest and its highest figure.
function lines(traffic) {
  const seconds = (text) => parseFloat(text ?? '0')
  const drawn = [['admitted', (t) => Number(t.admitted ?? 0) / 10, (v) => compact.format(v) + '/s', ''], ['denied', (t) => Number(t.denied ?? 0) / 10, (v) => compact.format(v) + '/s', 'bad'],
    ['99 of 100 calls within', (t) => seconds(t.p99), (v) => span(v + 's'), 'warn']]
  if (traffic.length === 0) return h('p', { class: 'soft' }, 'Nodes keep what they answered in ten seconds each: the first lines come soon.')
  return h('div', { class: 'lines' }, drawn.map(([name, value, text, kind]) => {
    const values = traffic.map(value)
    return h('figure', {}, h('figcaption', {}, h('span', { class: 'soft' }, name), ' ', h('strong', {}, text(values.at(-1))), h('span', { class: 'soft' }, `, at most ${text(Math.max(...values))}`)),
      curve(values, 300, 56, kind))
  }))
}

function table(columns, rows, empty) {
  if (rows.length === 0) return h('div', { class: 'scroll' }, h('p', { class: 'empty' }, empty))
  const kind = (column) => ({ '#': 'number', '~': 'wrap' })[column[0]] ?? ''
  return h('div', { class: 'scroll' }, h('table', {},
    h('thead', {}, h('tr', {}, columns.map((c) => h('th', { scope: 'col', class: kind(c) }, c.replace(/^[#~]/, ''))))),
    h('tbody', {}, rows.map((row) => h('tr', {}, row.map((cell, i) =>
      h('td', { class: kind(columns[i]) }, cell instanceof Node ? cell : String(cell))))))))
}

const link = (screen, values, text) => h('a', { href: '#/' + screen + '?' + new URLSearchParams(values) }, text)
// keyOf leads to the key's screen. It cannot if the key is hashed, or if its limits came with the request: no policy has them.
const keyOf = (policy, key, hashed) => hashed ? h('span', { class: 'soft' }, key + ' (hash)')
  : policy === 'inline' ? h('span', { title: 'Its limits come with each request.' }, key) : link('key', { policy, key }, key)
const marked = (kind, text) => h('span', { class: kind }, text)

// Screens. Each yields what is asked for first, once, and what is drawn again at every look.

const screens = {
  cluster: {
    async look() {
      const [status, top] = await Promise.all([call('ClusterService/Status'),
        call('ObserveService/Top', { namespace: namespace(), order: 'TOP_ORDER_DENIALS', window: '600s', count: 1, traffic: true }).catch(() => ({}))])
      if (status.partial) throw new Failure('permission_denied', unseen)
      const denying = (top.policies ?? []).filter((p) => Number(p.denials ?? 0) > 0).sort((a, b) => Number(b.denials) - Number(a.denials))
      return [
        h('h1', {}, 'Cluster ', h('span', { class: 'soft' }, status.clusterId)),
        lines(top.traffic ?? []),
        denying.length > 0 ? [h('h2', {}, 'Policies that denied in the last 10 minutes'), table(['policy', '#denials', '#decisions', 'share', ''], denying.slice(0, limitsShown)
          .map((p) => [link('top', { policy: p.policy, order: 'DENIALS' }, p.policy), count(p.denials), count(p.decisions),
            percent(share(Number(p.denials), Number(p.decisions))), bar(share(Number(p.denials), Number(p.decisions)), 'bad')]), '')] : '',
        h('h2', {}, 'Nodes'), table(['node', 'state', 'address', '#owns', '#replicas', '#log write', '#slowest', '#disk free', 'memory', '#clock'],
          (status.nodes ?? []).map(nodeRow), 'No node is known.'),
        h('h2', {}, 'Shards'), table(['shard', 'owner', '#slots', '#keys', '#epoch', '#entries', 'replicas (entries behind)', 'policies'],
          (status.shards ?? []).map(shardRow), 'No shard is known.'),
        h('h2', {}, 'Moves'), (status.moves ?? []).length > 0 ? h('ul', {}, status.moves.map((move) => h('li', {}, move)))
          : h('p', { class: 'soft' }, 'Nothing is being moved.'),
        leasesLine(status.nodes ?? []),
        h('p', { class: 'soft' }, `Policies version ${status.policiesVersion}. Newest backup: ${moment(status.lastBackup)}.`),
      ]
    },
  },

  policies: {
    async look() {
      const [list, top] = await Promise.all([call('PolicyService/List'),
        call('ObserveService/Top', { namespace: namespace(), count: 1 })])
      const sums = new Map((top.policies ?? []).map((p) => [p.policy, p]))
      for (const policy of list.policies ?? []) remember(policy.name, Number(sums.get(policy.name)?.decisions ?? 0) / 60)
      return [
        h('h1', {}, 'Policies ', h('span', { class: 'soft' }, 'version ' + list.version)),
        table(['policy', 'limits', '#decisions/s', 'while in view', '#denied', 'share', ''], (list.policies ?? []).map((policy) => {
          const sum = sums.get(policy.name)
          const denied = share(Number(sum?.denials ?? 0), Number(sum?.decisions ?? 0))
          return [link('top', { policy: policy.name, order: 'DENIALS' }, policy.name),
            h('span', {}, (policy.limits ?? []).map((l) => h('div', {}, limitText(l)))),
            (Number(sum?.decisions ?? 0) / 60).toFixed(1), curve(memory.rates.get(policy.name)), percent(denied), bar(denied, 'bad'),
            policy.shadow ? marked('warn', 'shadow: denies nothing') : '']
        }), 'There are no policies: stint apply FILE puts some in force.'),
        h('p', { class: 'soft' }, 'Decisions and denials of the last minute in the namespace ' + namespace() + ', over all nodes.'),
      ]
    },
  },

  top: {
    ask: (values) => form('top', values, {
      order: choice({ DENIALS: 'denials', DECISIONS: 'decisions', UNITS: 'admitted units' }),
      window: choice({ '600s': 'last 10 minutes', '60s': 'last minute', '3600s': 'last hour' }),
      policy: pick('policies', 'all of them'),
    }),
    async look(values) {
      const top = await call('ObserveService/Top', { namespace: namespace(), order: 'TOP_ORDER_' + (values.order || 'DENIALS'),
        window: values.window || '600s', count: 20, policies: values.policy ? [values.policy] : [] })
      const missing = top.missingNodes ?? []
      return [
        missing.length > 0 ? h('p', { class: 'error' }, 'Without the nodes ' + missing.join(', ') + '.') : '',
        table(['policy', 'key', '#decisions', '#denials', '#units', 'denied'], (top.keys ?? []).sort(ordered(values.order || 'DENIALS')).map((k) => [k.policy,
          keyOf(k.policy, k.key, k.hashed),
          bounded(k.decisions, k.decisionsError), bounded(k.denials, k.denialsError), bounded(k.units, k.unitsError),
          bar(share(Number(k.denials), Number(k.decisions)), 'bad')]),
        `No decision ${values.policy ? 'by ' + values.policy + ' ' : ''}in the namespace ${namespace()} in this time.`),
        h('p', { class: 'soft' }, 'A count with ± is too high by at most that much.'),
      ]
    },
  },

  denials: {
    ask(values) {
      const asked = form('denials', values, {
        policy: pick('policies', 'all of them'),
        key: h('input', { size: 40, placeholder: 'all of them', spellcheck: 'false' }),
      })
      asked.append(h('button', { type: 'button', id: 'pause', 'aria-pressed': 'false', click: pause }, 'Pause'))
      return asked
    },
    live: true,
    async look() {
      const live = memory.live
      if (live?.failure) throw live.failure
      if (!live?.begun) return [h('p', { class: 'soft' }, 'Connecting...')]
      const { events, limits, count: seen, missed, missing, since } = live.held ?? live
      const behind = live.count - seen
      return [
        missing.length > 0 ? h('p', { class: 'error' }, 'Denials that the nodes ' + missing.join(', ') + ' answer are missing: they do not send them.') : '',
        h('h1', {}, live.held ? 'Paused ' : 'Live ', h('span', { class: 'soft' }, `${count(seen)} ${seen === 1 ? 'denial' : 'denials'} since ${since}` +
          (behind > 0 ? `, and ${count(behind)} while paused` : '') + (missed > 0 ? `; ${count(missed)} more were too many to show` : ''))),
        limits.size > 0 ? [table(['denied by', '#denials', '#share', ''], [...limits].sort((a, b) => b[1] - a[1]).slice(0, limitsShown).map(([name, n]) =>
          [name, count(n), percent(share(n, seen)), bar(share(n, seen), 'bad')]), ''), h('h2', {}, 'Newest first')] : '',
        table(['at (UTC)', 'policy', '~key', '~denied by', 'again', 'asked by', 'on'], events.map(denialRow), 'Nobody has been denied since then.'),
      ]
    },
  },

  key: {
    ask: (values) => [form('key', values, {
      policy: pick('policies', '', { required: true }),
      key: h('input', { size: 40, required: true, spellcheck: 'false' }),
    }), values.key ? actions(values) : ''],
    async look(values) {
      if (!values.policy || !values.key) return [h('p', { class: 'soft' }, 'Name a policy and a key, or follow a key from Top.')]
      const key = { namespace: namespace(), entries: [{ policy: values.policy, key: values.key }], explain: true }
      const [got, peek, audit] = await Promise.all([
        call('LimitService/Get', key),
        call('LimitService/Check', { ...key, mode: 'MODE_PEEK' }).catch(() => undefined), // a token that may not check sees no wait
        call('ObserveService/Audit', { namespace: namespace(), policy: values.policy, key: values.key, count: 20 }).catch(() => undefined)])
      return [
        h('h1', { class: 'verdict' }, verdict(got, peek?.decision)),
        table(['limit', '#left', '#used', '#held', '#quota', '', 'at rest again'], (got.limits ?? []).map((l) => {
          const spent = l.unlimited ? 0 : share(Number(l.used), Number(l.quota)) // what is held is a part of it
          return [l.limit + (l.soft ? ', asks for a challenge' : '') + (l.shadow ? ', shadow' : ''), l.unlimited ? 'any' : count(l.remaining), count(l.used),
            count(l.held), l.unlimited ? 'none' : count(l.quota), bar(spent, spent >= 100 ? 'bad' : ''), l.resetAt ? ahead(l.resetAt, got.at) : 'never']
        }), 'This policy has no limits.'),
        got.leases ? h('p', {}, `${count(got.leases.units)} of the used units are leased: holders may admit them without asking, until ${moment(got.leases.until)} at the latest.`) : '',
        (got.fired ?? []).length > 0 ? [h('h2', {}, 'Thresholds that have fired'), table(['limit', '#threshold', '#of the quota', 'silent until'],
          got.fired.map((f) => [f.limit, count(f.units), f.percent ? f.percent + ' %' : '', f.windowEnd ? moment(f.windowEnd) : 'for ever']), '')] : '',
        h('h2', {}, 'Why'), h('pre', {}, got.explanation),
        h('h2', {}, 'What was done to it by hand'), audit ? auditTable(audit.records ?? [])
          : h('p', { class: 'soft' }, 'This token may not read the audit log.'),
      ]
    },
  },

  usage: {
    ask: (values) => form('usage', values, {
      period: h('input', { size: 10, placeholder: '2026-10', spellcheck: 'false' }),
      policy: pick('policies', 'all of them'),
      key: h('input', { size: 30, placeholder: 'all of them', spellcheck: 'false' }),
    }),
    slow: true,
    async look(values) {
      const list = await call('ObserveService/ListUsage', { namespace: namespace(), policy: values.policy, key: values.key, period: values.period, pageSize: 200 })
      const unreadable = (list.unreadable ?? []).length
      return [
        unreadable > 0 ? h('p', { class: 'error' }, `Without the bills of ${count(unreadable)} ${unreadable === 1 ? 'key' : 'keys'}, which cannot be read: stint usage names them.`) : '',
        values.policy && values.key ? months(list.records ?? []) : '',
        table(['policy', 'meter', 'key', 'period', 'state', '#units', '#credits', '#corrections', '#owed'], (list.records ?? []).map((r) => [r.policy, r.meter, r.key,
          h('span', { title: `${moment(r.start)} to ${moment(r.end)}` }, period(r)),
          (r.state ?? '').replace('USAGE_STATE_', '').toLowerCase() + (r.recovered ? ', recovered' : ''), count(r.units), count(r.credits), count(r.corrections), count(owed(r))]),
        list.nextPageToken || unreadable > 0 ? 'No usage on this page.' : 'No usage: only policies with meter: keep it.'),
        h('p', { class: 'soft' }, list.nextPageToken ? 'There is more than this page. The command stint usage lists all, as NDJSON or CSV.'
          : `Complete through ${moment(list.completeThrough)}.`),
      ]
    },
  },

  events: {
    slow: true,
    ask: (values) => [form('events', values, {
      state: choice({ '': 'waiting and dead letters', waiting: 'waiting', dead: 'dead letters' }),
      sink: h('input', { size: 20, placeholder: 'all of them', spellcheck: 'false' }),
    }), replay(values)],
    async look(values) {
      const [list, events] = await Promise.all([call('SinkService/List'),
        call('SinkService/ListEvents', { sink: values.sink, state: values.state, count: 100 })])
      return [
        (events.missing ?? []).length > 0 ? h('p', { class: 'error' }, 'Without the events of the shards ' + events.missing.join(', ') + ', which do not answer.') : '',
        h('h1', {}, 'Sinks'), table(['sink', 'kind', 'events', '~address', '~state'], (list.sinks ?? []).map(sinkRow), 'There is no sink: stint sink create makes one.'),
        h('h2', {}, 'Events that no sink has taken yet'),
        table(['at', 'sink', 'what', 'policy', '~key', 'limit', '~state'], (events.events ?? []).map(eventRow), 'Nothing waits, and there is no dead letter.'),
        h('p', { class: 'soft' }, (events.more ? 'The oldest 100. The command stint sink events lists more. ' : '') +
          'A dead letter was given up: once its sink works, send it again.'),
      ]
    },
  },

  audit: {
    slow: true,
    async look() {
      const audit = await call('ObserveService/Audit', { count: 100 })
      return [h('h1', {}, 'What was done by hand'), auditTable(audit.records ?? [])]
    },
  },
}

function nodeRow(node) {
  const m = node.machine
  if (node.state === 'removed') return [node.id, marked('soft', 'removed'), node.apiAddr, node.owns, node.replicas, '', '', '', '', '']
  const state = !node.alive ? marked('bad', 'silent for ' + span(node.silent)) : marked(node.draining ? 'warn' : 'well', node.draining ? 'draining' : node.state)
  if (!node.alive || !m) return [node.id, state, node.apiAddr, node.owns, node.replicas, '', '', '', '', '']
  const used = share(Number(m.recordBytes ?? 0), Number(m.recordBytesLimit ?? 0))
  const slow = parseFloat(m.logWriteMean ?? '0') > 0.05
  const clock = Math.abs(parseFloat(node.clockAhead ?? '0')) > 0.2
  return [node.id, state, node.apiAddr, node.owns, node.replicas, marked(slow ? 'bad' : '', span(m.logWriteMean)), span(m.logWriteSlowest),
    marked(m.diskFull ? 'bad' : '', m.diskFull ? 'full' : bytes(m.diskFree)),
    h('span', { title: `${bytes(m.recordBytes)} of ${bytes(m.recordBytesLimit)} for records; the process has ${bytes(m.memory)}` }, bar(used, used > 87 ? 'bad' : '', 60)),
    marked(clock ? 'bad' : '', span(node.clockAhead))]
}

// leasesLine counts edges and the leases of nodes.
function leasesLine(nodes) {
  const sum = (field) => nodes.reduce((n, node) => n + (node[field] ?? 0), 0)
  const edges = sum('edges'), leases = sum('leases')
  return edges + leases === 0 ? '' : h('p', {}, `${count(edges)} ${edges === 1 ? 'edge is' : 'edges are'} connected, and nodes hold ${count(leases)} ${leases === 1 ? 'lease' : 'leases'}.`)
}

// blame names the limits that denied, or else how it was denied.
const blame = (decision) => (decision.deniedBy?.length > 0 ? decision.deniedBy : [decision.outcome.replaceAll('_', ' ')])

// verdict says what a request for one unit would get now, by which limits, and until when, if it was decided on trial.
function verdict(got, decision) {
  const limits = decision?.limits ?? got.limits ?? []
  const full = limits.filter((l) => l.blockedUntil || !l.unlimited && Number(l.remaining ?? 0) === 0)
  const shut = full.filter((l) => !l.shadow || l.blockedUntil && decision?.allowed === false) // by hand, which no shadow lets pass
  if (shut.length === 0) {
    const left = limits.filter((l) => !l.unlimited && !l.shadow).map((l) => BigInt(l.remaining ?? 0))
    const least = left.reduce((a, b) => (a < b ? a : b), left[0])
    return [marked('well', 'Allowed'), left.length > 0 ? `: ${count(least)} left.` : ': nothing limits it.', full.length > 0 ? ' Limits in shadow would deny.' : '']
  }
  const names = [...new Set(shut.map((l) => l.policy + (l.blockedUntil ? ' (blocked)' : '/' + l.limit)))].join(', ')
  const until = decision?.retryAfter && new Date(Date.parse(got.at) + parseFloat(decision.retryAfter) * 1000).toISOString()
  return [marked('bad', shut.every((l) => l.soft && !l.blockedUntil) ? 'Challenged' : 'Denied'), ` by ${names}`,
    until ? ` until ${moment(until)} (${ahead(until, got.at)}).` : decision ? ': no wait helps.' : '.']
}

function denialRow(e) {
  const d = e.decision
  return [e.at.slice(11, 23), e.policy, keyOf(e.policy, e.key, e.hashed),
    blame(d).join(', ') + (d.outcome === 'challenged' ? ': asks for a challenge' : ''), d.retryAfter ? 'in ' + span(d.retryAfter) : marked('soft', 'never by itself'),
    (d.token ? d.token + ', ' : '') + d.protocol, h('span', { class: 'soft' }, d.node + (d.cached ? ', repeated' : ''))]
}

// period is that of a record in its meter's zone, as stint usage prints it: 2026, 2026-10 or 2026-10-31. Of any other it is both ends.
function period({ start, end, timeZone = 'UTC' }) {
  let from, to
  try {
    [from, to] = [start, end].map((at) => new Date(at).toLocaleString('sv', { timeZone })) // 2026-10-01 00:00:00
  } catch { // this browser does not know the zone
    return period({ start, end })
  }
  const read = (local) => Date.parse(local.replace(' ', 'T') + 'Z')
  const [year, month, day] = from.split(/\D/).map(Number)
  for (const [length, next] of [[4, Date.UTC(year + 1, 0)], [7, Date.UTC(year, month)], [10, Date.UTC(year, month - 1, day + 1)]]) {
    const text = from.slice(0, length)
    if (Date.parse(text) === read(from) && next === read(to)) return text
  }
  return `${from.slice(0, 16)} to ${to.slice(0, 16)} ${timeZone}`
}

const owed = (r) => BigInt(r.units ?? 0) - BigInt(r.credits ?? 0) + BigInt(r.corrections ?? 0)

// months draws what is owed for the periods of one key, the oldest first.
function months(records) {
  const periods = records.toSorted((a, b) => Date.parse(a.start) - Date.parse(b.start)).slice(-24)
  if (periods.length === 0) return ''
  const net = periods.map((r) => Math.max(0, Number(owed(r))))
  const most = Math.max(...net, 1), height = 120, wide = 34
  return s('svg', { class: 'months', width: wide * periods.length, height: height + 40, role: 'img', 'aria-label': 'Units in each period; the table has the figures.' },
    periods.map((r, i) => {
      const tall = (height * net[i]) / most
      return s('g', {}, s('rect', { class: 'part', x: wide * i + 4, y: 16 + height - tall, width: wide - 8, height: tall, rx: 3 }),
        s('text', { x: wide * i + wide / 2, y: 12 + height - tall }, compact.format(net[i])), s('text', { x: wide * i + wide / 2, y: height + 32 }, period(r).slice(0, 10).slice(-5)))
    }))
}

function sinkRow(sink) {
  const state = sink.disabledAt ? marked('warn', 'disabled: ' + (sink.disabledWhy || 'by hand')) : sink.failing ? marked('bad', sink.failing) : marked('well', 'takes events')
  return [sink.name, sink.kind, (sink.events ?? []).join(', '), sink.url, state]
}

function eventRow(e) {
  const state = e.state === 'dead' ? marked('bad', 'dead letter' + (e.why ? ': ' + e.why : '')) : e.why ? marked('warn', 'waits: ' + e.why) : 'under way'
  return [moment(e.at), e.sink, e.kind, e.policy, e.namespace === namespace() ? keyOf(e.policy, e.key) : e.namespace + ': ' + e.key,
    e.limit ?? '', state]
}

// listen keeps the stream of denials open while its screen is in view, and opens it again when it breaks.
async function listen(values) {
  const turn = memory.turn
  const signal = memory.stop.signal
  memory.live = { events: [], limits: new Map(), count: 0, missed: 0, missing: [], since: clock(), begun: false }
  const live = memory.live
  const wanted = { namespace: namespace(), kinds: ['EVENT_KIND_DENIED'], policies: values.policy ? [values.policy] : [], key: values.key }
  while (!signal.aborted) {
    try {
      await watch(wanted, signal, (event) => {
        live.begun = true
        live.failure = undefined
        hear(live, event)
      })
    } catch (failure) {
      if (signal.aborted) return
      live.failure = failure instanceof Failure ? failure : new Failure('unreachable', 'This node does not answer.')
    }
    if (turn === memory.turn) draw()
    await new Promise((resolve) => setTimeout(resolve, secondsPerLook * 1000))
  }
}

function hear(live, event) {
  live.missed += Number(event.missed ?? 0)
  if (event.decision) {
    live.count++
    live.events = [event, ...live.events.slice(0, denialsShown - 1)]
    for (const name of blame(event.decision)) live.limits.set(name, (live.limits.get(name) ?? 0) + 1)
  } else if (event.kind === 'EVENT_KIND_STREAM') live.missing = event.missingNodes ?? []
  if (!live.due) live.due = setTimeout(() => { // many denials are drawn at once
    live.due = undefined
    if (memory.live === live && !live.held) draw()
  }, event.decision ? 500 : 0)
}

// pause holds what is in view: nobody can click a key that moves.
function pause() {
  const live = memory.live
  if (!live?.begun) return
  live.held = live.held ? undefined : { ...live, limits: new Map(live.limits) }
  byId('pause').setAttribute('aria-pressed', String(live.held !== undefined))
  byId('pause').textContent = live.held ? 'Go on' : 'Pause'
  draw()
}

// slots are how many a shard has. The system shard has none.
function slots(ranges) {
  const text = ranges.map((r) => `${r.first ?? 0} to ${r.last ?? 0}`).join(', ')
  return h('span', { title: text }, count(ranges.reduce((sum, r) => sum + (r.last ?? 0) - (r.first ?? 0) + 1, 0)))
}

function shardRow(shard) {
  return [shard.name ?? shard.id, shard.owner ? shard.owner : marked('bad', 'nobody'), slots(shard.slots ?? []), count(shard.keys), count(shard.epoch), count(shard.seq),
    h('span', {}, (shard.replicas ?? []).map((r, i) => h('span', { class: r.lost ? 'bad' : r.known ? '' : 'soft' },
      (i > 0 ? ', ' : '') + r.node + (r.lost ? ' lost' : !r.known ? ' unknown' : Number(r.lag) > 0 ? ` (${count(r.lag)})` : '') + (r.voter ? '' : ' learning')))),
    shard.policiesVersion]
}

// limitText is a limit in a few words: its name, its quota and its algorithm with the period.
function limitText(limit) {
  for (const [field, word] of [['fixedWindow', 'fixed window'], ['slidingWindow', 'sliding window'],
    ['slidingLog', 'sliding log'], ['calendar', 'calendar'], ['tokenBucket', 'token bucket'], ['gcra', 'spaced evenly'], ['concurrency', 'at once'],
    ['lifetime', 'for ever'], ['unlimited', 'counted only']]) {
    if (limit[field] !== undefined) {
      const { period: length, unit, refill, per } = limit[field]
      const of = length ? span(length) : unit?.replace(/^.*UNIT_/, '').toLowerCase()
      const period = refill ? `, ${count(refill)} each ${span(per)}` : of ? ' of ' + of : ''
      return `${limit.name}: ${limit.quota === undefined ? '' : count(limit.quota)} ${limit.unit ?? ''}`.trim() + `, ${word}${period}` + (limit.shadow ? ', shadow' : '')
    }
  }
  return `${limit.name}: ${count(limit.quota)}`
}

// ordered compares keys of all policies by what is certain of a count.
const ordered = (order) => {
  const name = order.toLowerCase()
  const certain = (k) => Number(k[name] ?? 0) - Number(k[name + 'Error'] ?? 0)
  return (a, b) => certain(b) - certain(a)
}

const bounded = (value, error) => count(value) + (Number(error) > 0 ? ' ±' + count(error) : '')

function remember(policy, rate) {
  const rates = memory.rates.get(policy) ?? []
  rates.push(rate)
  memory.rates.set(policy, rates.slice(-looksKept))
}

const auditTable = (records) => table(['at', 'who', 'policy', '~key', 'limit', 'what', '~before', '~after', '~note'], records.map((r) => [moment(r.at), r.actor,
  r.policy, r.key, r.limit, r.deed, r.before, r.after, r.note]), 'Nothing was done by hand.')

// pick is a field that offers the names of a list of the page: policies, limits.
const pick = (list, placeholder, more = {}) => h('input', { list, size: 20, placeholder, spellcheck: 'false', autocomplete: 'off', ...more })

// offer fills the lists that fields pick from. A token that may not list the policies types them.
async function offer() {
  const { policies = [], rules = '' } = await call('PolicyService/List').catch(() => ({}))
  const of = policies.find((p) => p.name === place().values.policy)
  const names = { policies: policies.map((p) => p.name), limits: (of?.limits ?? []).map((l) => l.name),
    namespaces: ['default', ...Array.from((rules.match(/^namespaces:\n((?: .*\n?)*)/m)?.[1] ?? '').matchAll(/^ {2}([^ :]+):/gm), (m) => m[1])] }
  for (const [id, values] of Object.entries(names)) byId(id).replaceChildren(...values.map((value) => h('option', { value })))
}

function choice(values) {
  return h('select', {}, Object.entries(values).map(([value, text]) => h('option', { value }, text)))
}

// form asks for the values of a screen; they are part of the page's address.
function form(screen, values, fields) {
  const submit = (event) => {
    event.preventDefault()
    const given = Object.entries(fields).map(([name, field]) => [name, field.value.trim()]).filter(([, value]) => value !== '')
    location.hash = '#/' + screen + '?' + new URLSearchParams(given)
  }
  return h('form', { class: 'ask', submit }, Object.entries(fields).map(([name, field]) => {
    if (values[name]) field.value = values[name]
    if (field.tagName === 'SELECT') field.addEventListener('change', () => field.form.requestSubmit())
    field.name = name
    return h('label', {}, name, field)
  }), h('button', {}, 'Show'))
}

// actions change one key. Each asks once more, takes a note for the audit log, and has an id, so that it is done once.
function actions(values) {
  const limit = pick('limits', 'all limits', { size: 12 })
  const told = h('span', { role: 'status' })
  const act = (title, text, op) => async () => {
    const note = await confirmed(title, text)
    if (note === undefined) return
    try {
      await call('LimitService/Adjust', { namespace: namespace(), policy: values.policy, key: values.key, limit: limit.value.trim(), note,
        idempotencyId: freshId(), ...op() })
      told.replaceChildren(marked('well', title + ': done.'))
    } catch (failure) {
      told.replaceChildren(marked('bad', title + ': ' + failure.message))
    }
    draw()
  }
  const who = `${values.key} of ${values.policy}`
  return h('div', { class: 'buttons actions' },
    h('label', {}, 'limit', limit),
    h('button', { type: 'button', click: act('Reset', `The counts of ${who} begin anew.`, () => ({ reset: {} })) }, 'Reset'),
    h('button', { type: 'button', click: act('Block for an hour', `Everything for ${who} is denied for an hour.`,
      () => ({ blockUntil: new Date(now() + 3600_000).toISOString() })) }, 'Block for an hour'),
    h('button', { type: 'button', click: act('Lift the block', `${who} is no longer blocked by hand.`, () => ({ unblock: {} })) }, 'Lift the block'),
    told)
}

// replay sends the dead letters of a sink, or of all, again, after it has asked once more. Each keeps its id, so doing it twice counts nothing
// twice.
function replay(values) {
  const told = h('span', { role: 'status' })
  const act = async () => {
    const note = await confirmed('Send dead letters again', `All dead letters for ${values.sink || 'any sink'} wait again.`)
    if (note === undefined) return
    try {
      const done = await call('SinkService/ReplayEvents', { sink: values.sink, note })
      told.replaceChildren(marked('well', `${count(done.replayed)} dead letters are sent again.`))
    } catch (failure) {
      told.replaceChildren(marked('bad', failure.message))
    }
    draw()
  }
  return h('div', { class: 'buttons actions' }, h('button', { type: 'button', click: act }, 'Send dead letters again'), told)
}

// freshId is random. crypto.randomUUID is not there on a page without TLS.
const freshId = () => 'ui-' + Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, '0')).join('')

// confirmed asks once more, and yields the note, or undefined.
function confirmed(title, text) {
  const dialog = byId('confirm')
  byId('confirm-title').textContent = title
  byId('confirm-text').textContent = text
  byId('confirm-note').value = ''
  dialog.returnValue = ''
  dialog.showModal()
  const asked = ++memory.asked
  return new Promise((resolve) => {
    const close = () => {
      if (asked === memory.asked && dialog.open) return // the end of the question before, which comes late
      dialog.removeEventListener('close', close)
      resolve(asked === memory.asked && dialog.returnValue === 'do' ? byId('confirm-note').value.trim() : undefined)
    }
    dialog.addEventListener('close', close)
  })
}

function askForToken(why) {
  const dialog = byId('token')
  if (dialog.open) return
  if (why) byId('token-why').textContent = why
  byId('token-value').value = ''
  dialog.returnValue = ''
  dialog.showModal()
}

byId('token').addEventListener('close', () => {
  const dialog = byId('token')
  if (dialog.returnValue === 'use') memory.token = byId('token-value').value.trim()
  else if (dialog.returnValue === 'forget') memory.token = ''
  else {
    memory.declined = true
    return
  }
  byId('token-value').value = ''
  sessionStorage.setItem('token', memory.token)
  show()
})

// Drawing.

function place() {
  const [path, query] = location.hash.replace(/^#\//, '').split('?')
  return { name: path in screens ? path : 'cluster', values: Object.fromEntries(new URLSearchParams(query)) }
}

// show puts another screen, or the same one for other values, into view.
function show() {
  memory.turn++
  memory.declined = false
  const { name, values } = place()
  for (const a of document.querySelectorAll('nav a')) {
    if (a.hash === '#/' + name) a.setAttribute('aria-current', 'page')
    else a.removeAttribute('aria-current')
  }
  document.title = 'stint: ' + name
  byId('screen').replaceChildren(...[screens[name].ask?.(values) ?? []].flat().filter((part) => part !== ''), h('div', { id: 'drawn' }))
  tune()
  offer()
  draw()
}

// tune opens the stream of a screen that has one, and closes that of the screen before, or of a page that nobody sees.
function tune() {
  memory.stop?.abort()
  memory.stop = new AbortController()
  memory.live = undefined
  const { name, values } = place()
  if (screens[name].live && !document.hidden) listen(values)
}

// draw asks for the screen's figures and replaces those in view.
async function draw() {
  const turn = memory.turn
  const { name, values } = place()
  let parts
  try {
    parts = await screens[name].look(values)
    byId('asked').textContent = 'As of ' + clock()
  } catch (failure) {
    if (!(failure instanceof Failure)) throw failure
    if (failure.code === 'unauthenticated' && turn === memory.turn && !memory.declined) askForToken(failure.message)
    parts = [h('p', { class: 'error' }, failure.message)]
  }
  if (turn !== memory.turn) return
  morph(byId('drawn'), h('div', { id: 'drawn' }, parts))
}

// morph makes what is in view the same as what was just made, in place: a link that somebody is about to click, or that has the
// focus, stays the same link. What is drawn again and again has no listeners.
function morph(view, made) {
  if (view.nodeName !== made.nodeName) return view.replaceWith(made)
  if (view.nodeType !== Node.ELEMENT_NODE) {
    if (view.nodeValue !== made.nodeValue) view.nodeValue = made.nodeValue
    return
  }
  for (const { name } of [...view.attributes]) if (!made.hasAttribute(name)) view.removeAttribute(name)
  for (const { name, value } of made.attributes) if (view.getAttribute(name) !== value) view.setAttribute(name, value)
  const fresh = [...made.childNodes]
  while (view.childNodes.length > fresh.length) view.lastChild.remove()
  for (const [i, child] of fresh.entries()) {
    if (view.childNodes[i]) morph(view.childNodes[i], child)
    else view.append(child)
  }
}

// judge says in one line above every screen whether something is wrong.
async function judge() {
  let wrong = []
  const known = [] // beside what is wrong
  try {
    const status = await call('ClusterService/Status')
    const nodes = (status.nodes ?? []).filter((n) => n.state !== 'removed').length
    const shards = (status.shards ?? []).filter((s) => s.name !== 'system').length // the others have the keys
    wrong = status.partial ? [unseen] : status.problems ?? []
    if (wrong.length === 0) known.push(`${memory.letters ? '' : 'All is well: '}${nodes} ${nodes === 1 ? 'node' : 'nodes'}, ${shards} ${shards === 1 ? 'shard' : 'shards'}, all owned.`)
    if (!status.partial) known.push(status.lastBackup ? `The newest backup is ${span((now() - Date.parse(status.lastBackup)) / 1000 + 's')} old.` : 'There is no backup.')
    if (memory.letters) known.push(memory.letters)
  } catch (failure) {
    wrong = [failure.message]
  }
  const health = byId('health')
  health.className = wrong.length > 0 || memory.letters ? 'bad' : 'well'
  const said = wrong.concat(known.join(' ') || []).join('\n')
  if (health.textContent !== said) health.textContent = said // a screen reader reads every change
}

// letters counts the dead letters, for those who may see them.
async function letters() {
  const { events = [], more } = await call('SinkService/ListEvents', { state: 'dead', count: 100 }).catch(() => ({}))
  memory.letters = events.length === 0 ? '' : `${events.length}${more ? ' or more' : ''} dead ${events.length === 1 ? 'letter' : 'letters'}: see Events.`
}

// look goes round while the page is visible.
async function look() {
  for (let round = 0; ; round++) {
    if (!document.hidden) {
      if (round % 15 === 0) await letters()
      await judge()
      if (round > 0 && !(screens[place().name].slow && round % 15 > 0)) await draw()
    }
    await new Promise((resolve) => setTimeout(resolve, secondsPerLook * 1000))
  }
}

addEventListener('hashchange', show)
document.addEventListener('visibilitychange', () => screens[place().name].live && show())
byId('namespace').addEventListener('change', show)
byId('sign-in').addEventListener('click', () => askForToken())
addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest('input, select, textarea, dialog')) return
  const names = Object.keys(screens)
  if (names[Number(event.key) - 1]) location.hash = '#/' + names[Number(event.key) - 1]
  else if (event.key === 't') askForToken()
  else if (event.key === 'p' && place().name === 'denials') pause()
  else if (event.key === '/') {
    location.hash = '#/key'
    setTimeout(() => document.querySelector('form.ask input[name=key]')?.focus())
  } else return
  event.preventDefault()
})
show()
look()
