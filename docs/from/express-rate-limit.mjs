// An Express application whose requests stint counts. The policies are in express-rate-limit.yaml.
import express from 'express'
import { rateLimit } from 'express-rate-limit'
import { Stint, clientIP } from '@stint/client'
import { limit } from '@stint/client/express'
import { StintStore } from '@stint/client/express-rate-limit'

const limits = new Stint({ addresses: [process.env.STINT_URL] })
const app = express()

// Step 1: the limiter stays, its store is new.
const searches = rateLimit({
  windowMs: 15 * 60 * 1000,
  limit: 3,
  keyGenerator: (req) => req.get('x-user'),
  store: new StintStore(limits, { prefix: 'search:' }),
})

// Step 2: the middleware of stint.
const perIP = limit(limits, { policy: 'per-ip', key: clientIP(), fail: 'open' })
const login = limit(limits, { policy: 'login', key: (req) => req.get('x-user'), fail: 'closed' })

app.get('/static/logo', (req, res) => res.send('a file\n')) // before the limits: files cost no check
app.use('/search', searches, (req, res) => res.send('found\n'))
app.use(perIP)
app.get('/', (req, res) => res.send('hello\n'))
app.post('/login', login, async (req, res) => {
  if (req.get('x-password') !== 'right') return res.status(401).send('wrong\n')
  await limits.settle({ decisionId: req.stint.decisionId }, 'cancel').catch(console.error) // a success gives its unit back
  res.send('in\n')
})

const [host, port] = process.argv[2].split(':')
app.listen(Number(port), host)
