// Serves the fetch handler of a module in Node, as wrangler does for a Worker: node serve.mjs MODULE HOST:PORT
import http from 'node:http'
import path from 'node:path'
import { pathToFileURL } from 'node:url'

const [file, address] = process.argv.slice(2)
const worker = (await import(pathToFileURL(path.resolve(file)))).default
const [host, port] = address.split(':')

http.createServer(async (incoming, outgoing) => {
  try {
    const request = new Request(`http://${address}${incoming.url}`, { method: incoming.method, headers: incoming.headers })
    const response = await worker.fetch(request, process.env, {})
    outgoing.writeHead(response.status, [...response.headers].flat())
    outgoing.end(Buffer.from(await response.arrayBuffer()))
  } catch (error) {
    console.error(error)
    outgoing.writeHead(500).end()
  }
}).listen(Number(port), host)
