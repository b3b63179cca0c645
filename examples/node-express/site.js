// The whole website but for its port. README.md explains the choices.
import { createHash, timingSafeEqual } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import express from 'express'
import { clientIP } from '@stint/client'
import { limit } from '@stint/client/express'
import { page } from './page.js'

export function site(limits, { trustedProxies } = {}) {
  const ip = clientIP({ trustedProxies })
  const perIP = { policy: 'per-ip', key: ip }
  const account = (req) => req.body.email?.trim().toLowerCase()
  const onError = (error) => console.error(error.message)

  // Pages stay open while stint is away. A login does not: that would be the time to guess passwords.
  const visit = limit(limits, { ...perIP, fail: 'open', onDenied: tooMany, onError })
  const attempt = limit(limits, {
    entries: [
      perIP,
      { policy: 'login-pair', key: (req) => ({ ip: ip(req), account: account(req) }) }, // so a stranger does not lock the owner out
      { policy: 'login-account', key: account },
    ],
    fail: 'closed', timeoutMs: 2000, onDenied: tooMany, onError,
  })

  const app = express()
  app.disable('x-powered-by')
  app.get('/style.css', (req, res) => res.sendFile(fileURLToPath(new URL('style.css', import.meta.url)))) // in front of the limits: files cost no check
  app.get('/', visit, (req, res) => res.send(page({ title: 'Sign in', form: true })))
  app.post('/login', express.urlencoded({ extended: false, limit: '64kb' }), attempt, async (req, res) => {
    if (!isPassword(account(req), req.body.password ?? '')) {
      return res.status(403).send(page({ title: 'Sign in', text: 'That is not the password of this account.', form: true }))
    }
    // The request is already counted. The right password gives back what it cost; wrong ones stay counted.
    await limits.settle(req.stint, 'cancel').catch(onError)
    return res.send(page({ title: 'Welcome', text: `You are signed in as ${account(req)}.` }))
  })
  return app
}

// tooMany answers people with a page, and programs with JSON. Retry-After is already set.
function tooMany(req, res, { reason, retryAfterSeconds }) {
  const minutes = Math.ceil(retryAfterSeconds / 60)
  const text = `${reason} Please try again in ${minutes > 1 ? `${minutes} minutes` : 'a minute'}.`
  res.status(429).set('Cache-Control', 'no-store').format({
    'application/json': () => res.json({ error: 'rate_limited', retryAfter: retryAfterSeconds }),
    'text/html': () => res.send(page({ title: 'One moment, please', text })),
  })
}

// There is one user, and a hash that is good enough for an example only: take bcrypt or argon2id.
const digest = (text) => createHash('sha256').update(text).digest()
const users = new Map([['ann@example.com', digest('correct horse')]])

function isPassword(email, password) {
  return timingSafeEqual(users.get(email) ?? Buffer.alloc(32), digest(String(password)))
}
