// The examples for Node, as somebody has them who copied a directory: their own tests, and their server.
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import { createRequire } from 'node:module'
import os from 'node:os'
import path from 'node:path'
import test from 'node:test'
import { fileURLToPath } from 'node:url'
import { startStint } from './server.js'

const root = fileURLToPath(new URL('../../..', import.meta.url))

// copy copies an example and does what npm install would do, without a network.
function copy(t, name) {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'stint-example-'))
  t.after(() => fs.rmSync(dir, { recursive: true }))
  fs.cpSync(path.join(root, 'examples', name), dir, { recursive: true })
  fs.mkdirSync(path.join(dir, 'node_modules', '@stint'), { recursive: true })
  fs.symlinkSync(path.join(root, 'client', 'js'), path.join(dir, 'node_modules', '@stint', 'client'))
  fs.symlinkSync(path.dirname(createRequire(import.meta.url).resolve('express')), path.join(dir, 'node_modules', 'express'))
  return dir
}

test('node-express passes its tests', (t) => {
  const dir = copy(t, 'node-express')
  const env = { ...process.env }
  delete env.NODE_TEST_CONTEXT // else it reports to this test's reporter
  const { status, stdout, stderr } = spawnSync(process.execPath, ['--test'], { cwd: dir, env, encoding: 'utf8' })
  assert.equal(status, 0, stdout + stderr)
  assert.match(stdout, /pass 5/)
})

test('node-express serves', async (t) => {
  const dir = copy(t, 'node-express')
  const stint = await startStint(path.join(dir, 'policies.yaml'))
  const server = spawn(process.execPath, ['server.js'], { cwd: dir, env: { ...process.env, STINT: stint, PORT: '0' }, stdio: ['ignore', 'pipe', 'inherit'] })
  t.after(async () => {
    server.kill()
    if (server.exitCode === null) await once(server, 'exit')
  })
  const [said] = await once(server.stdout, 'data')
  const [, base] = /serving at (\S+)/.exec(said)
  const page = await fetch(base)
  assert.deepEqual([page.status, page.headers.get('x-ratelimit-remaining')], [200, '99'])
  assert.match(await page.text(), /<h1>Sign in<\/h1>/)
})
