//go:build proxies

package examples

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/internal/testing/testcluster"
)

// program is a proxy that somebody else wrote, with the files of its example.
type program struct {
	name string   // of the example
	find []string // names of the program, in the order in which they are looked for
	need string   // what to install
	// start returns the arguments that make it serve, in the foreground, from a directory with the example's files.
	start func(t *testing.T, dir string) []string
	shows bool // answers that pass carry the gate's headers
	ids   bool // each request has an id: the gate is asked again about it without counting it again
	opens bool // a request can pass while no node answers
}

var programs = []program{
	{name: "nginx", find: []string{"nginx", "/usr/sbin/nginx"}, need: "Debian's nginx", start: startNginx, shows: true,
		ids: true, opens: true},
	{name: "caddy", find: []string{"caddy"}, need: "Debian's caddy", shows: true, ids: true, opens: true,
		start: func(t *testing.T, dir string) []string {
			// without the port for its administrator, which another Caddy may have
			file := filepath.Join(dir, "Caddyfile")
			write(t, file, "{\n\tadmin off\n}\n"+read(t, file))
			return []string{"run", "--config", "Caddyfile", "--adapter", "caddyfile"}
		}},
	{name: "haproxy", find: []string{"haproxy", "/usr/sbin/haproxy"}, need: "Debian's haproxy", shows: true, ids: true,
		opens: true, start: func(*testing.T, string) []string { return []string{"-db", "-f", "haproxy.cfg"} }},
	{name: "traefik", find: []string{"../dist/traefik"}, need: "what `make traefik` builds",
		start: func(*testing.T, string) []string { return []string{"--configFile=traefik.yaml"} }},
}

// startNginx writes the file that includes the example's. It adds locations that look for a file and then go elsewhere.
func startNginx(t *testing.T, dir string) []string {
	main := `user root;
daemon off;
pid nginx.pid;
error_log stderr;
events {}
http {
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    include stint.conf;
}
`
	const place = "    location @stint_denied {"
	const files = "    location /files/ { try_files $uri $uri/index.html @site; }\n" +
		"    location @site { proxy_pass http://127.0.0.1:8080; }\n"
	example := read(t, filepath.Join(dir, "stint.conf"))
	if !strings.Contains(example, place) {
		t.Fatalf("stint.conf has no line %q", place)
	}
	const site = "    location / {\n"
	// nginx takes 1 MiB by itself
	example = strings.Replace(example, site, site+"        client_max_body_size 32m;\n", 1)
	write(t, filepath.Join(dir, "stint.conf"), strings.Replace(example, place, files+place, 1))
	write(t, filepath.Join(dir, "nginx.conf"), main)
	return []string{"-p", dir, "-c", "nginx.conf", "-e", "stderr"}
}

// world is a proxy between clients and a site, with three nodes beside it.
type world struct {
	*testing.T
	program
	address   string // of the proxy
	nodes     *testcluster.Cluster
	site      *site
	undecided *atomic.Bool // an answer said that the nodes could not decide
}

// site answers with what it was asked for. It keeps the first lines of requests, also of those that its server refuses
// to read.
type site struct {
	net.Listener
	mu    sync.Mutex
	asked map[string]int
	first []string
}

// Accept implements net.Listener.
func (s *site) Accept() (net.Conn, error) {
	conn, err := s.Listener.Accept()
	return &siteConn{conn, s}, err
}

type siteConn struct {
	net.Conn
	site *site
}

// Read implements net.Conn.
func (c *siteConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if line, _, found := strings.Cut(string(p[:n]), " HTTP/1."); found {
		c.site.mu.Lock()
		defer c.site.mu.Unlock()
		c.site.first = append(c.site.first, line)
	}
	return n, err
}

// lines returns the first lines of requests with a text in them.
func (s *site) lines(text string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.first), func(line string) bool { return !strings.Contains(line, text) })
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the connection is broken
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[r.RequestURI]++
	_, _ = io.WriteString(w, r.Method+" "+r.RequestURI+" "+string(body)) // the client notices
}

// takes returns how often the site was asked for something since it was last asked so.
func (s *site) takes(uri string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.asked[uri]
	delete(s.asked, uri)
	return n
}

// front starts three nodes with the policies of a proxy's example, a site, and the proxy. The policies and the
// configuration are the example's but for the addresses, and the token.
func front(t *testing.T, p program) *world {
	t.Helper()
	return frontOf(t, p, filepath.Join(p.name, "policies.yaml"), testcluster.Options{Nodes: 3}, "")
}

// frontOf is front with other policies, and other nodes, which may ask for a token.
func frontOf(t *testing.T, p program, policies string, o testcluster.Options, token string) *world {
	t.Helper()
	binary := locate(t, p)
	nodes := start(t, o, policies)
	site := &site{asked: map[string]int{}}
	server := httptest.NewUnstartedServer(site)
	site.Listener, server.Listener = server.Listener, site
	server.Start()
	t.Cleanup(server.Close)
	w := &world{T: t, program: p, address: nodes.Beside(8000), nodes: nodes, site: site, undecided: new(atomic.Bool)}
	last := nodes.Len() - 1
	ours := strings.NewReplacer(
		"127.0.0.1:7400", nodes.Addr(0), "127.0.0.1:7410", nodes.Addr(min(1, last)), "127.0.0.1:7420",
		nodes.Addr(min(2, last)), `Stint-Token       ""`, `Stint-Token "`+token+`"`, `Stint-Token: ""`,
		`Stint-Token: "`+token+`"`, "127.0.0.1:8000", w.address, "127.0.0.1:8080", server.Listener.Addr().String(),
		"127.0.0.1:7399", nodes.Beside(7399))
	dir := t.TempDir()
	files, err := os.ReadDir(p.name)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		write(t, filepath.Join(dir, file.Name()), read(t, filepath.Join(p.name, file.Name())))
	}
	arguments := p.start(t, dir)
	for _, file := range files {
		name := filepath.Join(dir, file.Name())
		write(t, name, ours.Replace(read(t, name)))
	}
	t.Setenv("STINT_TOKEN", token)
	w.run(exec.Command(binary, arguments...), dir)
	c := w.from("127.0.1.99")
	await.Until(t, p.name+" passes requests on", func() bool {
		return w.ask(c, "GET", "/", nil).status == http.StatusOK
	})
	return w
}

// run runs the proxy until the test ends, and waits until it listens.
func (w *world) run(command *exec.Cmd, dir string) {
	w.Helper()
	var output bytes.Buffer // read after the process has ended
	command.Dir, command.Stdout, command.Stderr = dir, &output, &output
	command.Env = append(os.Environ(), "HOME="+dir, "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := command.Start(); err != nil {
		w.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = command.Wait() // it is killed
		close(ended)
	}()
	w.Cleanup(func() {
		_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL) // it may have ended
		<-ended
		if w.Failed() {
			w.Logf("%s said\n%s", w.name, lastOf(output.String(), 8<<10))
		}
	})
	await.Until(w, w.name+" listens", func() bool {
		select {
		case <-ended:
			w.Fatalf("%s ended\n%s", w.name, output.String())
		default:
		}
		conn, err := net.Dial("tcp", w.address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
}

// locate finds the program, or skips the test.
func locate(t *testing.T, p program) string {
	t.Helper()
	for _, name := range p.find {
		if path, err := exec.LookPath(name); err == nil {
			if path, err = filepath.Abs(path); err == nil {
				return path
			}
		}
	}
	t.Skipf("%s is not on this machine: install %s", p.name, p.need)
	return ""
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func lastOf(text string, n int) string { return text[max(0, len(text)-n):] }
