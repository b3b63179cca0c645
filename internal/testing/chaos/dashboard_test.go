//go:build chaos && browser

package chaos

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/internal/testing/testcluster"
)

var pictureDir = flag.String("pictures", "", "directory in which TestDashboard puts a picture of every screen, "+
	"light and dark")

const dashboardPolicies = `policies:
  login:
    limits:
      - {name: burst, quota: 5, fixed_window: {period: 24h, anchor: first_hit}}
      - {name: daily, quota: 50, fixed_window: {period: 24h}}
  emails:
    limits:
      - {name: pace, quota: 1000, token_bucket: {refill: 100, per: 1s}}
  exports:
    notify: [billing]
    limits:
      - {name: month, quota: 1000, unit: rows, calendar: {unit: month, time_zone: UTC}, thresholds: [1%]}
    meter: {name: rows, calendar: {unit: month, time_zone: Europe/Berlin}}
  plan:
    lease: {units: 100, for: 10s}
    limits:
      - {name: daily, quota: 1000000, fixed_window: {period: 24h}}
`

// TestDashboard is an operator at a real Chromium, with three nodes: who is denied, why, an action with a note in the
// audit log, a node that dies, and tokens. A script that throws, a breach of the page's policy or a request to any
// other site fails it.
func TestDashboard(t *testing.T) {
	c := newClusterWith(t, testcluster.Options{Policies: dashboardPolicies,
		Args: []string{"--sink-allow", "127.0.0.1"}})
	down := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadGateway)
	}))
	t.Cleanup(down.Close)
	said(t, "sink", "create", "billing", "--kind", "webhook", "--url", down.URL, "--events", "threshold", "--addr",
		"http://"+c.Addr(0))
	decide(t, c)
	b := newBrowser(t, c.Addr(0))

	b.open("/")
	b.await(`document.querySelector('#health.well')?.textContent.includes('3 nodes')`)
	b.await(`document.querySelector('#health.well').textContent.includes('There is no backup.')`)
	b.await(`document.querySelectorAll('#drawn tbody tr').length >= 3 + 2`)
	b.await(`[...document.querySelectorAll('#drawn tbody tr')].some((row) ` +
		`=> row.cells[0].textContent === '3' && row.cells[2].textContent === '256')`)
	b.await(`document.querySelectorAll('#drawn figure polyline').length === 3`)
	b.awaitDoing(`[...document.querySelectorAll('#drawn h2')].some((title) `+
		`=> title.textContent.startsWith('Policies that denied'))`, func() { decide(t, c) }) // a new owner has counted none
	b.picture("cluster")
	b.awaitDoing(`document.querySelector('#drawn')?.textContent.includes('nodes hold ')`, func() { askForLeases(t, c) })
	b.watchDenials(t, c)
	for _, screen := range []struct{ key, name, shows string }{{"2", "policies", "login"}, {"3", "top", "user:anna"},
		{"6", "usage", "exports"}, {"7", "events", "waits: "}} {
		b.press(screen.key)
		b.awaitDoing(fmt.Sprintf(`document.querySelector('#drawn')?.textContent.includes(%q)`, screen.shows), func() {
			decide(t, c)
		})
		b.picture(screen.name)
	}

	b.await(`(location.hash = '#/usage?policy=exports&key=customer:acme')`)
	// Each time that the load was repeated has added 12.
	b.await(`[...document.querySelectorAll('svg.months text')].some((units) ` +
		`=> units.textContent > 0 && units.textContent % 12 === 0)`)
	b.await(`/^\d{4}-\d\d$/.test(document.querySelector('#drawn td:nth-child(4)').textContent)`) // a month of Berlin
	b.picture("usage-key")
	b.replaysDeadLetters()
	b.press("5")
	b.run(chromedp.SendKeys(chromedp.CSS("input[name=policy]"), "exports"),
		chromedp.SendKeys(chromedp.CSS("input[name=key]"), "customer:acme"+kb.Enter))
	b.await(`document.querySelector('#drawn')?.textContent.includes('Thresholds that have fired')`)
	b.await(`document.querySelector('#drawn')?.textContent.includes('1 %')`)

	b.press("3")
	b.await(`(location.hash = '#/top?order=DECISIONS')`)
	b.await(`[...document.querySelectorAll('#drawn tbody tr')].some((row) ` +
		`=> row.textContent.startsWith('inlineinline:guest') && row.querySelector('a') === null)`)
	b.awaitDoing(`document.querySelector('#drawn')?.textContent.includes('user:anna')`, func() { decide(t, c) })
	b.click(`//div[@id='drawn']//a[text()='user:anna']`)
	b.await(`document.querySelector('pre')?.textContent.includes('5 of 5 used')`)
	b.await(`document.querySelector('h1.verdict')?.textContent.startsWith('Denied by login/burst until ')`)
	b.await(`[...document.querySelectorAll('#limits option')].map((o) => o.value).join() === 'burst,daily'`)
	b.await(`[...document.querySelectorAll('#policies option')].map((o) => o.value).join() === 'emails,exports,login,plan'`)
	b.picture("key")
	b.onPhone()
	b.asks(`Block for an hour`)
	b.run(chromedp.SendKeys(chromedp.ID("confirm-note"), "asked <b>by phone</b>"))
	b.click(`//dialog[@id='confirm']//button[text()='Do it']`)
	b.await(`document.querySelector('.actions .well')?.textContent.includes('done')`)
	b.await(`document.querySelector('#drawn')?.textContent.includes('asked <b>by phone</b>')`)
	if got, err := newClient(c.Addr(1)).check("exports", "customer:acme", ""); got != admitted {
		t.Error("another key is blocked too:", got, err)
	}
	b.asks(`Lift the block`)
	b.click(`//dialog[@id='confirm']//button[text()='Cancel']`)
	b.press("8")
	b.await(`document.querySelector('#drawn')?.textContent.includes('asked <b>by phone</b>')`)
	b.picture("audit")
	// with the founding; what was cancelled is not in the log
	b.await(`document.querySelectorAll('#drawn tbody tr').length === 3`)

	if err := c.Kill(2); err != nil {
		t.Fatal(err)
	}
	b.press("1")
	b.await(fmt.Sprintf(`document.querySelector('#health.bad')?.textContent.includes(%q)`, c.Name(2)))
	b.await(`document.querySelector('#health.bad')?.textContent.includes('There is no backup.')`)
	b.picture("node-down")
	if err := c.Restart(2); err != nil {
		t.Fatal(err)
	}
	b.await(`document.querySelector('#health.well') !== null`)

	root := said(t, "token", "create", "root", "--admin", "--expires", "never", "--data-dir", c.Dir(0))
	reader := said(t, "token", "create", "reader", "--grant", "ops=observe", "--expires", "1d", "--addr",
		"http://"+c.Addr(0), "--token-file", tokenFile(t, root))
	b.await(`document.querySelector('#token').open`)
	b.click(`//dialog[@id='token']//button[text()='Cancel']`)
	b.await(`!document.querySelector('#token').open && document.querySelector('#drawn .error') !== null`)
	b.signIn(reader)
	b.press("7")
	b.await(`document.querySelector('#drawn .error')?.textContent.includes('sinks')`) // what the token may not do
	b.signIn(root)
	b.await(`document.querySelector('#drawn')?.textContent.includes('waits: ')`)
	b.press("5")
	b.run(chromedp.SendKeys(chromedp.CSS("input[name=policy]"), "login"),
		chromedp.SendKeys(chromedp.CSS("input[name=key]"), "user:anna"+kb.Enter))
	b.asks(`Lift the block`)
	b.click(`//dialog[@id='confirm']//button[text()='Do it']`)
	b.await(`document.querySelector('#drawn')?.textContent.includes('root')`) // the audit log knows the actor
	b.mustBeClean()
}

// askForLeases checks a key so often that the node takes a lease.
func askForLeases(t *testing.T, c *testcluster.Cluster) {
	t.Helper()
	caller := newClient(c.Addr(0))
	for range 30 {
		if got, err := caller.check("plan", "customer:acme", ""); got != admitted {
			t.Error(got, err)
		}
	}
}

// replaysDeadLetters asks for dead letters to be sent again, after a question. There are none in so short a time.
func (b *browser) replaysDeadLetters() {
	b.press("7")
	b.asks(`Send dead letters again`)
	b.click(`//dialog[@id='confirm']//button[text()='Cancel']`)
	b.await(`document.querySelector('.actions span')?.textContent === ''`)
	b.awaitDoing(`document.querySelector('.actions .well')?.textContent.includes('0 dead letters are sent again')`,
		func() {
			b.asks(`Send dead letters again`) // again, if a shard has just changed its owner
			b.click(`//dialog[@id='confirm']//button[text()='Do it']`)
			b.await(`document.querySelector('.actions span')?.textContent !== ''`)
		})
}

// onPhone looks at a key on a narrow screen: two lines of header, what is left is in view, and nothing is said about a
// keyboard.
func (b *browser) onPhone() {
	b.Helper()
	size := emulation.SetDeviceMetricsOverrideParams{Width: 400, Height: 800, DeviceScaleFactor: 1, Mobile: true}
	if _, err := chromedp.Call(b.ctx, emulation.SetDeviceMetricsOverride, size); err != nil {
		b.Fatal(err)
	}
	b.await(`innerWidth === 400 && document.documentElement.scrollWidth === 400`)
	b.await(`new Set([...document.querySelectorAll('header > *')].map((part) ` +
		`=> Math.round(part.getBoundingClientRect().bottom / 20))).size <= 2`)
	b.await(`document.querySelector('#drawn tbody td:nth-child(2)').getBoundingClientRect().right <= 400`)
	b.await(`getComputedStyle(document.querySelector('.hints')).display === 'none'`)
	b.picture("key-narrow")
	if _, err := chromedp.Call(b.ctx, emulation.ClearDeviceMetricsOverride, cdp.Empty{}); err != nil {
		b.Fatal(err)
	}
}

// watchDenials looks at denials as they are made, on all nodes: paused they stand still, and a key leads to its screen.
func (b *browser) watchDenials(t *testing.T, c *testcluster.Cluster) {
	t.Helper()
	b.press("4")
	b.await(`document.querySelector('#drawn h1')?.textContent.includes('0 denials')`)
	decide(t, c) // of both keys of login, 12 times on three nodes
	b.await(`document.querySelector('#drawn h1')?.textContent.includes('24 denials')`)
	b.await(`[...document.querySelectorAll('#drawn tbody tr td:first-child')].some((cell) ` +
		`=> cell.textContent === 'login/burst')`)
	for i := range 3 {
		b.await(fmt.Sprintf(`[...document.querySelectorAll('#drawn tbody tr')].some((row) `+
			`=> row.textContent.includes('user:anna') && row.textContent.includes(%q))`, c.Name(i)))
	}
	b.picture("denials")
	b.press("p")
	b.await(`document.querySelector('#drawn h1')?.textContent.includes('Paused')`)
	decide(t, c)
	b.await(`document.querySelector('#drawn h1')?.textContent.includes('24 denials') ` +
		`&& document.querySelector('#drawn h1').textContent.includes('24 while paused')`)
	b.press("p")
	b.await(`document.querySelector('#drawn h1')?.textContent.includes('48 denials')`)
	b.run(chromedp.Focus(chromedp.ID("pause")), chromedp.KeyEvent(" "))
	b.await(`document.querySelector('#pause').getAttribute('aria-pressed') === 'true'`) // a keyboard is enough
	b.press("p")
	b.hide(true)
	await.Until(t, "a hidden page has no stream", func() bool { return b.streaming() == 0 })
	b.hide(false)
	b.await(`document.querySelector('#drawn h1')?.textContent.includes('0 denials')`)
	await.Until(t, "a page in view has one stream", func() bool { return b.streaming() == 1 })
	decide(t, c)
	b.click(`//div[@id='drawn']//a[text()='ip:203.0.113.9']`)
	b.await(`location.hash.startsWith('#/key') && document.querySelector('pre')?.textContent.includes('5 of 5 used')`)
}

// inline is one check of a key with limits in the request.
var inline = map[string]any{"entries": []any{map[string]any{"key": "inline:guest", "limits": []any{map[string]any{
	"name": "l", "quota": 9, "fixedWindow": map[string]any{"period": "60s"}}}}}}

// decide gives the screens something to show: a key that is denied, some that are not, one without a policy, and usage.
func decide(t *testing.T, c *testcluster.Cluster) {
	t.Helper()
	await.Until(t, "a check with limits of its own is answered", func() bool {
		status, err := newClient(c.Addr(0)).call("Check", inline, &struct{}{})
		return err == nil && status == http.StatusOK
	})
	for i := range 12 {
		for _, one := range []struct{ policy, key string }{{"login", "user:anna"}, {"login", "ip:203.0.113.9"},
			{"exports", "customer:acme"}, {"emails", fmt.Sprintf("tenant:%d", i%4)}} {
			await.Until(t, "a check is answered", func() bool {
				// a shard that changes its owner may say unavailable
				got, _ := newClient(c.Addr(i%3)).check(one.policy, one.key, "")
				return got == admitted || got == denied
			})
		}
	}
}

// browser is one page in a Chromium of its own.
type browser struct {
	*testing.T
	ctx     context.Context
	address string

	mu      sync.Mutex // guards what is below: the page's events come on another goroutine
	faults  []string
	streams map[network.RequestID]bool
}

func newBrowser(t *testing.T, address string) *browser {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.WindowSize(1280, 760),
		chromedp.UserDataDir(t.TempDir()), chromedp.Flag("disable-component-update", true),
		chromedp.WSURLReadTimeout(time.Minute))
	allocated, cancel := chromedp.NewExecAllocator(within(t, 4*time.Minute), options...)
	t.Cleanup(cancel)
	ctx, cancel := chromedp.NewContext(allocated)
	t.Cleanup(cancel)
	b := &browser{T: t, ctx: ctx, address: "http://" + address, streams: map[network.RequestID]bool{}}
	if err := chromedp.Listen(ctx, b.hear); err != nil { // this starts it
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			b.tellPage()
		}
	})
	return b
}

// hear notes what no page of ours may do.
func (b *browser) hear(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		b.faults = append(b.faults, fmt.Sprintf("an exception: %+v", *e.ExceptionDetails))
	case *cdplog.EventEntryAdded:
		if e.Entry.Source == cdplog.EntrySourceSecurity || e.Entry.Source == cdplog.EntrySourceViolation {
			b.faults = append(b.faults, e.Entry.Text)
		}
	case *network.EventRequestWillBeSent:
		if !strings.HasPrefix(e.Request.URL, b.address+"/") {
			b.faults = append(b.faults, "a request to "+e.Request.URL)
		}
		if strings.HasSuffix(e.Request.URL, "/Watch") {
			b.streams[e.RequestID] = true
		}
	case *network.EventLoadingFailed:
		delete(b.streams, e.RequestID)
	case *network.EventLoadingFinished:
		delete(b.streams, e.RequestID)
	}
}

// streaming is how many streams of decisions the page has.
func (b *browser) streaming() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.streams)
}

// hide makes the page believe that it is hidden, or visible again.
func (b *browser) hide(hidden bool) {
	b.Helper()
	b.await(fmt.Sprintf(`Object.defineProperty(document, 'hidden', {value: %t, configurable: true}) &&
		(document.dispatchEvent(new Event('visibilitychange')), true)`, hidden))
}

// signIn gives the page a token.
func (b *browser) signIn(token string) {
	b.Helper()
	b.click(`//button[@id='sign-in']`)
	b.await(`document.querySelector('#token').open`)
	b.run(chromedp.SendKeys(chromedp.ID("token-value"), strings.TrimSpace(token)+kb.Enter))
	b.await(`!document.querySelector('#token').open && document.querySelector('#health.well') !== null`)
}

func (b *browser) mustBeClean() {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, fault := range b.faults {
		b.Error(fault)
	}
}

func (b *browser) run(actions ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.Fatal(err)
	}
}

func (b *browser) open(path string)  { b.Helper(); b.run(chromedp.Navigate(b.address + path)) }
func (b *browser) press(keys string) { b.Helper(); b.run(chromedp.KeyEvent(keys)) }
func (b *browser) click(selector string) {
	b.Helper()
	b.run(chromedp.Click(chromedp.Search(selector)))
}

// asks clicks a button until the page asks whether it is meant: the line about the cluster's health may grow or shrink
// just then, and move the button away from under the pointer.
func (b *browser) asks(button string) {
	b.Helper()
	click := func() { b.click(`//button[text()='` + button + `']`) }
	click()
	b.awaitDoing(`document.querySelector('#confirm').open`, click)
}

// await waits until an expression holds on the page.
func (b *browser) await(expression string) {
	b.Helper()
	await.Until(b, "on the page: "+expression, func() bool {
		holds, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
		return holds && err == nil
	})
}

// awaitDoing waits as await does, and does something now and then that brings it about: a new owner of a shard begins
// with an empty Top.
func (b *browser) awaitDoing(expression string, do func()) {
	b.Helper()
	done := time.Now()
	await.Until(b, "on the page: "+expression, func() bool {
		holds, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
		if err == nil && !holds && time.Since(done) > 3*time.Second {
			do()
			done = time.Now()
		}
		return holds && err == nil
	})
}

// tellPage logs what the page shows.
func (b *browser) tellPage() {
	if text, err := chromedp.Run(b.ctx,
		chromedp.Evaluate[string](`location.href + '\n' + document.body.innerText`)); err == nil {
		b.Logf("the page shows:\n%s", text)
	}
	b.mustBeClean()
}

// picture writes the screen down, light and dark, if pictures are wanted.
func (b *browser) picture(name string) {
	b.Helper()
	if *pictureDir == "" {
		return
	}
	for _, scheme := range []string{"light", "dark"} {
		_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
		if err != nil {
			b.Fatal(err)
		}
		png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
		if err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(*pictureDir, name+"-"+scheme+".png"), png, 0o644); err != nil {
			b.Fatal(err)
		}
	}
}
