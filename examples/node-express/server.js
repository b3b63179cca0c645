// STINT, PORT and PROXIES say where stint is, where to listen, and which proxies are in front.
import { Stint } from '@stint/client'
import { site } from './site.js'

const { STINT = 'http://127.0.0.1:7400', PORT = '8080', PROXIES } = process.env
const limits = new Stint({ addresses: STINT.split(',') })
const server = site(limits, { trustedProxies: PROXIES?.split(',') }).listen(Number(PORT), '127.0.0.1', () => {
  console.log(`serving at http://127.0.0.1:${server.address().port}/`)
})
