// page returns what people see. text may come from outside, and is escaped.
export function page({ title, text = '', form = false }) {
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="/style.css">
<title>${title}</title>
<main>
  <h1>${title}</h1>
  ${text && `<p>${escaped(text)}</p>`}
  ${form ? formOf : '<p><a href="/">Back</a></p>'}
</main>
`
}

const formOf = `<form method="post" action="/login">
    <label>E-mail <input name="email" type="email" autocomplete="username" required></label>
    <label>Password <input name="password" type="password" autocomplete="current-password" required></label>
    <button>Sign in</button>
  </form>`

const entities = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }

function escaped(text) { return text.replace(/[&<>"']/g, (c) => entities[c]) }
