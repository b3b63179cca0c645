// The package as a whole: its types, its README, what it would publish.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import test from 'node:test'
import { fileURLToPath } from 'node:url'
import { startStint } from './server.js'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const manifest = JSON.parse(fs.readFileSync(path.join(root, 'package.json'), 'utf8'))

test('types declare what the modules export, and nothing else', async () => {
  for (const [subpath, { types, default: module }] of Object.entries(manifest.exports)) {
    const declared = [...fs.readFileSync(path.join(root, types), 'utf8').matchAll(/^export (?:class|function|const) (\w+)/gm)].map((m) => m[1])
    assert.deepEqual(declared.sort(), Object.keys(await import(path.join(root, module))).sort(), subpath)
  }
})

const tsc = ['--strict', '--noEmit', '--target', 'es2022', '--module', 'node16', '--moduleResolution', 'node16', '--lib', 'es2022,dom']

test('types fit the interfaces of the packages that use them (tsc --strict)', () => {
  const result = spawnSync('tsc', [...tsc, 'test/types.ts'], { cwd: root, encoding: 'utf8' })
  assert.equal(result.error, undefined, 'tsc is needed: Debian has it in node-typescript')
  assert.equal(result.status, 0, result.stdout)
})

test('the package has no dependencies, and each of its files is used', () => {
  assert.equal(manifest.dependencies, undefined)
  assert.equal(manifest.peerDependencies, undefined)
  const files = fs.readdirSync(root).filter((name) => name.endsWith('.js'))
  for (const name of files) {
    for (const [, from] of fs.readFileSync(path.join(root, name), 'utf8').matchAll(/(?:from|import\()\s*'([^']+)'/g)) {
      assert.ok(files.includes(from.replace('./', '')), `${name} imports ${from}`)
    }
  }
})

test('the license goes with it: npm takes the one beside package.json', () => {
  assert.equal(fs.readFileSync(path.join(root, 'LICENSE'), 'utf8'), fs.readFileSync(path.join(root, '..', '..', 'LICENSE'), 'utf8'))
})

test('what npm packs can be installed, and is required as well as imported', (t) => {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'stint-js-'))
  t.after(() => fs.rmSync(dir, { recursive: true }))
  const run = (command, ...args) => {
    const env = { ...process.env, npm_config_cache: path.join(dir, 'cache'), npm_config_offline: 'true', npm_config_update_notifier: 'false' }
    const result = spawnSync(command, args, { cwd: dir, env, encoding: 'utf8' })
    assert.equal(result.status, 0, `${command} ${args}: ${result.error ?? result.stderr}`)
    return result.stdout
  }
  const [{ filename, files }] = JSON.parse(run('npm', 'pack', root, '--json'))
  assert.deepEqual(files.map((f) => f.path).filter((name) => !/^[a-z-]+(\.d\.ts|\.js)$/.test(name)).sort(), ['LICENSE', 'README.md', 'package.json'])
  fs.writeFileSync(path.join(dir, 'package.json'), '{}')
  run('npm', 'install', '--no-audit', '--no-fund', `./${filename}`)
  const program = `const { Stint } = require('@stint/client')
    const { limit } = require('@stint/client/express')
    import('@stint/client').then((m) => console.log(m.Stint === Stint, typeof limit, require.resolve('@stint/client')))`
  const inside = path.join(fs.realpathSync(dir), 'node_modules', '@stint', 'client', 'index.js')
  assert.equal(run(process.execPath, '--input-type=commonjs', '-e', program).trim(), `true function ${inside}`)
})

test('the README says the size of the package', () => {
  const size = fs.readdirSync(root).filter((name) => /\.(js|d\.ts|json|md)$/.test(name))
    .reduce((sum, name) => sum + fs.statSync(path.join(root, name)).size, 0)
  const [, said] = /(\d+) kB of files/.exec(fs.readFileSync(path.join(root, 'README.md'), 'utf8')) ?? []
  assert.ok(Math.abs(size / 1000 - Number(said)) <= 5, `the README says ${said} kB, and the files have ${size} bytes`)
})

// frameworkCode are the README's blocks for frameworks, with the address of a node in place of that of the page.
function frameworkCode() {
  const blocks = [...fs.readFileSync(path.join(root, 'README.md'), 'utf8').matchAll(/^```ts\n([^]*?)^```/gm)].map((m) => m[1])
  assert.equal(blocks.length, 3)
  return { next: blocks[0], remix: blocks[1], svelte: blocks[2] }
}

// inPackage makes a directory in which '@stint/client' is this package.
function inPackage(t) {
  const dir = fs.mkdtempSync(path.join(root, 'test', 'tmp-'))
  t.after(() => fs.rmSync(dir, { recursive: true }))
  return dir
}

test("the README's code for frameworks has the right types (tsc --strict)", (t) => {
  const dir = inPackage(t)
  const files = Object.entries(frameworkCode()).map(([name, code]) => {
    fs.writeFileSync(path.join(dir, `${name}.ts`), code)
    return path.join(dir, `${name}.ts`)
  })
  const result = spawnSync('tsc', [...tsc, 'test/frameworks.d.ts', ...files], { cwd: root, encoding: 'utf8' })
  assert.equal(result.status, 0, result.stdout)
})

test("the README's code for frameworks limits, and lets files pass", async (t) => {
  const url = await startStint()
  const dir = inPackage(t)
  const files = []
  for (const [name, code] of Object.entries(frameworkCode())) {
    files.push(path.join(dir, `${name}.ts`))
    const standIns = "const NextResponse = { next: () => new Response('next') }; const signIn = async () => new Response('signed in')\n"
    fs.writeFileSync(files.at(-1), standIns + code.replace('https://stint.example:7400', url).replace(/^import .*'(next|@svelte|@remix).*\n/gm, '').replace("'login-ip'", "'window'")
      .replace("'per-ip'", name === 'next' ? "'five'" : "'window'"))
  }
  spawnSync('tsc', ['--target', 'es2022', '--module', 'es2022', '--moduleResolution', 'node', '--outDir', dir, ...files], { cwd: root, encoding: 'utf8' })
  const load = (name) => import(path.join(dir, `${name}.js`))
  const from = (ip, path = '/', init = {}) => new Request(`http://app.example${path}`, { ...init, headers: { 'x-real-ip': ip, 'x-forwarded-for': '198.51.100.1' } })

  const { proxy, config } = await load('next')
  const first = []
  for (let i = 0; i < 6; i++) first.push((await proxy(from('192.0.2.60'))).status)
  assert.deepEqual(first, [200, 200, 200, 200, 200, 429])
  const [matcher] = config.matcher.map((pattern) => new RegExp(`^${pattern}$`))
  assert.deepEqual(['/', '/login', '/_next/static/app.js', '/_next/image', '/favicon.ico'].map((p) => matcher.test(p)), [true, true, false, false, false])

  const { action } = await load('remix')
  const logins = []
  for (let i = 0; i < 4; i++) logins.push((await action({ request: from('192.0.2.61', '/login', { method: 'POST', body: new URLSearchParams({ user: 'ann' }) }) })).status)
  assert.deepEqual(logins, [200, 200, 200, 429])

  const { handle } = await load('svelte')
  const hooks = []
  const event = (last) => ({ event: { getClientAddress: () => `2001:db8::${last}` }, resolve: async () => new Response('resolved') })
  for (let i = 1; i <= 4; i++) hooks.push((await handle(event(i))).status)
  assert.deepEqual(hooks, [200, 200, 200, 429], 'a /64 is one client')
})

test("the code of README.md and docs/errors.md runs", async () => {
  const url = await startStint(path.join(root, '..', '..', 'policy', 'dev.yaml'))
  const pages = [path.join(root, 'README.md'), path.join(root, '..', '..', 'docs', 'errors.md')]
  const blocks = pages.flatMap((page) => [...fs.readFileSync(page, 'utf8').matchAll(/^```js\n([^]*?)^```/gm)].map((m) => m[1]))
  assert.equal(blocks.length, 5)
  for (const block of blocks) {
    const program = block.replaceAll('http://127.0.0.1:7400', url)
      .replace("import express from 'express'", "import { createRequire } from 'node:module'; const express = createRequire(import.meta.url)('express')")
    const result = spawnSync(process.execPath, ['--input-type=module', '-e', program], { cwd: root, encoding: 'utf8', timeout: 60000 })
    assert.equal(result.status, 0, `${block}\n${result.stderr}`)
  }
})
