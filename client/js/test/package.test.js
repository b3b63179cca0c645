// The package as a whole: its types, its README, what it would publish.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
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

test('types fit the interfaces of the packages that use them (tsc --strict)', () => {
  const result = spawnSync('tsc', ['--strict', '--noEmit', '--target', 'es2022', '--module', 'node16', '--moduleResolution', 'node16',
    '--lib', 'es2022,dom', 'test/types.ts'], { cwd: root, encoding: 'utf8' })
  assert.equal(result.error, undefined, 'tsc is needed: Debian has it in node-typescript')
  assert.equal(result.status, 0, result.stdout)
})

test('the package has no dependencies, and each of its files is used', () => {
  assert.equal(manifest.dependencies, undefined)
  assert.equal(manifest.peerDependencies, undefined)
  const files = fs.readdirSync(root).filter((name) => name.endsWith('.js'))
  for (const name of files) {
    for (const [, from] of fs.readFileSync(path.join(root, name), 'utf8').matchAll(/(?:from|import\()\s*'([^']+)'/g)) {
      assert.ok(from === 'node:crypto' || files.includes(from.replace('./', '')), `${name} imports ${from}`)
    }
  }
})

test('it works where crypto is only a module, as in Node 18', () => {
  const program = `delete globalThis.crypto
    const { Stint } = await import('@stint/client')
    let body
    const limits = new Stint({ addresses: ['http://127.0.0.1:1'], fetch: async (url, init) => { body = JSON.parse(init.body); return new Response('{"decision":{}}') } })
    await limits.check({ policy: 'p', key: 'k' })
    console.log(typeof globalThis.crypto, body.idempotencyId.length)`
  const result = spawnSync(process.execPath, ['--input-type=module', '-e', program], { cwd: root, encoding: 'utf8' })
  assert.equal(result.stdout.trim(), 'undefined 36', result.stderr)
})

test('the README says the size of the package', () => {
  const size = fs.readdirSync(root).filter((name) => /\.(js|d\.ts|json|md)$/.test(name))
    .reduce((sum, name) => sum + fs.statSync(path.join(root, name)).size, 0)
  const [, said] = /(\d+) kB of files/.exec(fs.readFileSync(path.join(root, 'README.md'), 'utf8')) ?? []
  assert.ok(Math.abs(size / 1000 - Number(said)) <= 5, `the README says ${said} kB, and the files have ${size} bytes`)
})

test("the README's code runs", async () => {
  const url = await startStint(path.join(root, '..', '..', 'policy', 'dev.yaml'))
  const blocks = [...fs.readFileSync(path.join(root, 'README.md'), 'utf8').matchAll(/^```js\n([^]*?)^```/gm)].map((m) => m[1])
  assert.equal(blocks.length, 4)
  for (const block of blocks) {
    const program = block.replaceAll('http://127.0.0.1:7400', url)
      .replace("import express from 'express'", "import { createRequire } from 'node:module'; const express = createRequire(import.meta.url)('express')")
    const result = spawnSync(process.execPath, ['--input-type=module', '-e', program], { cwd: root, encoding: 'utf8', timeout: 60000 })
    assert.equal(result.status, 0, `${block}\n${result.stderr}`)
  }
})
