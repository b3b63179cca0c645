// startStint starts a stint for tests, whose clock they move: it keeps nothing and listens on this machine only. Copy it.
import { spawn } from 'node:child_process'
import { once } from 'node:events'

export async function startStint(policies, binary = process.env.STINT_BINARY ?? 'stint') {
  const node = spawn(binary, ['serve', '--dev', '--test-clock', '--policies', policies, '--api-addr', '127.0.0.1:0'], { stdio: ['ignore', 'pipe', 'pipe'] })
  let said = ''
  const url = await new Promise((resolve, reject) => {
    const read = (chunk) => {
      said += chunk
      const ready = /stint is ready at (\S+)/.exec(said)
      if (ready) resolve(ready[1])
    }
    node.stdout.on('data', read)
    node.stderr.on('data', read)
    node.on('error', reject)
    node.on('exit', (code) => reject(new Error(`stint ended with status ${code}: ${said}`)))
  })
  // advance moves the clock forward and resolves to its time in milliseconds. Whatever is sent then is decided at that time or later.
  const advance = async (seconds) => {
    const answer = await fetch(`${url}/stint.test.v1.TestClock/Advance`,
      { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ by: `${seconds}s` }) })
    if (!answer.ok) throw new Error(await answer.text())
    return Date.parse((await answer.json()).now)
  }
  const stop = async () => {
    node.kill()
    if (node.exitCode === null) await once(node, 'exit')
  }
  return { url, advance, stop }
}
