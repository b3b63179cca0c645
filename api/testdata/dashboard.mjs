// Draws a screen of the dashboard without a browser: stdin has its address and the answer to each procedure, stdout gets its text
// and the bars in it, and what stands above every screen.
import fs from 'node:fs'

class Node {
  static ELEMENT_NODE = 1
  nodeType = 1
  childNodes = []
  named = {}
  value = ''
  constructor(nodeName) { this.nodeName = nodeName }
  get attributes() { return Object.entries(this.named).map(([name, value]) => ({ name, value })) }
  setAttribute(name, value) { this.named[name] = String(value) }
  getAttribute(name) { return this.named[name] ?? null }
  hasAttribute(name) { return name in this.named }
  removeAttribute(name) { delete this.named[name] }
  append(...children) { this.childNodes.push(...children.map((c) => (c.nodeType ? c : { nodeType: 3, nodeName: '#text', nodeValue: String(c) }))) }
  replaceChildren(...children) { this.childNodes = []; this.append(...children) }
  addEventListener() {}
}

const { hash, answers } = JSON.parse(fs.readFileSync(0, 'utf8'))
const byId = {}
Object.assign(globalThis, {
  Node, location: { hash }, addEventListener() {}, sessionStorage: { getItem: () => null },
  document: {
    createElement: (name) => new Node(name), createElementNS: (_, name) => new Node(name), addEventListener() {}, querySelectorAll: () => [],
    getElementById: (id) => (byId[id] ??= new Node('div')),
  },
  fetch: async (path) => ({ ok: true, headers: new Headers({ Date: new Date().toUTCString() }), json: async () => answers[path.split('stint.v1.')[1]] ?? {} }),
})
await import('../ui/ui.js')
const all = (node) => [node, ...(node.childNodes ?? []).flatMap(all)]
while (!byId.drawn?.childNodes.length || !byId.health?.textContent) await new Promise((done) => setTimeout(done, 1))
const drawn = all(byId.drawn)
console.log(JSON.stringify({
  text: drawn.filter((n) => n.nodeType === 3).map((n) => n.nodeValue).join(''),
  health: `${byId.health.className}: ${byId.health.textContent}`,
  bars: drawn.filter((n) => n.nodeName === 'rect' && n.named.class?.startsWith('part')).map((n) => `${n.named.width}${n.named.class.slice(4)}`),
}))
process.exit()
