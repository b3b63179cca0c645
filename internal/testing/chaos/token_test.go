//go:build chaos

package chaos

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/offline/backup"
	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/internal/testing/testcluster"
	"github.com/stint-io/stint/shard"
)

// TestNoTokenIsInALogOrABackup: tokens go over every carrier, rightly and wrongly. Then nothing that three processes
// have logged holds one, and nothing in a backup, which is read as a restore reads it; nor what the API tells of
// tokens.
func TestNoTokenIsInALogOrABackup(t *testing.T) {
	c := newClusterWith(t, testcluster.Options{Policies: policies(1000), Redis: true})
	root := said(t, "token", "create", "root", "--admin", "--expires", "never", "--data-dir", c.Dir(0))
	as := func(arguments ...string) string {
		return said(t, append(arguments, "--addr", "http://"+c.Addr(0), "--token-file", tokenFile(t, root))...)
	}
	web := as("token", "create", "web", "--expires", "1d", "--grant", "ops=check,observe")
	rotated := as("token", "rotate", "web", "--overlap", "1h")
	revoked := as("token", "create", "laptop", "--expires", "1d", "--grant", "ops=check")
	as("token", "revoke", "laptop")
	expired := as("token", "create", "gone", "--expires", "2s", "--grant", "ops=check")
	foreign := said(t, "token", "generate")
	mistyped := web[:len(web)-8] + strings.ToUpper(web[len(web)-8:]) + "x"
	tokens := []string{root, web, rotated, revoked, expired, foreign, mistyped}
	good := map[string]bool{root: true, web: true, rotated: true}
	for _, token := range tokens {
		for i, address := range c.Addrs() {
			await.Until(t, fmt.Sprintf("node %d knows token %.14s...", i+1, token), func() bool {
				return (get(t, "http://"+address+"/metrics", "Bearer "+token) == http.StatusOK) == good[token]
			})
			get(t, "http://"+address+"/metrics", "Basic "+token)
			get(t, "http://"+address+"/metrics?access_token="+token, "")
			get(t, "http://"+address+"/"+token, "")
			redisSay(t, c.RedisAddr(i), "AUTH "+token, "AUTH web "+token, "HELLO 3 AUTH web "+token, "INCR visits")
		}
	}
	file := filepath.Join(t.TempDir(), "stint.backup")
	as("backup", file)

	places := map[string][]byte{"the list": []byte(as("token", "list", "-o", "json")),
		"the audit log": []byte(as("audit", "-o", "json")), "the status": []byte(as("status", "-o", "json"))}
	for i := range c.Len() {
		log := c.Log(i)
		if !strings.Contains(log, "wrong token") {
			t.Fatalf("the log of node %d says nothing of wrong tokens:\n%s", i+1, log)
		}
		places[fmt.Sprint("the log of node ", i+1)] = []byte(log)
	}
	for i, picture := range pictures(t, file) {
		places[fmt.Sprint("the backup of shard ", i)] = picture
	}
	if system := places["the backup of shard 4"]; !bytes.Contains(system, []byte(`laptop`)) &&
		!bytes.Contains(system, []byte(`web`)) {
		t.Errorf("the pictures are not in clear text: the backup holds no name of a token")
	}
	for place, content := range places {
		for i, token := range tokens {
			if secret := token[len("stint_12345678_"):]; bytes.Contains(content, []byte(secret)) {
				t.Errorf("token %d of %d, %.14s..., is in %s", i+1, len(tokens), token, place)
			}
		}
	}
}

// pictures reads the shards of a backup: the data shards in order, then the system shard.
func pictures(t *testing.T, name string) (all [][]byte) {
	t.Helper()
	file, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b, err := backup.Read(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	for _, state := range append(append([]*shard.State{}, b.Data...), b.System) {
		var picture bytes.Buffer
		if _, err := state.Snapshot().WriteTo(&picture); err != nil {
			t.Fatal(err)
		}
		all = append(all, picture.Bytes())
	}
	header, err := json.Marshal(b.Header)
	if err != nil {
		t.Fatal(err)
	}
	return append(all, header)
}

// said returns what a command of the binary prints.
func said(t *testing.T, arguments ...string) string {
	t.Helper()
	var stderr bytes.Buffer
	command := exec.Command(program(t), arguments...)
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("stint %v: %v\n%s", arguments, err, &stderr)
	}
	return strings.TrimSpace(string(out))
}

func tokenFile(t *testing.T, token string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(name, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// get asks with a header Authorization and returns the status.
func get(t *testing.T, url, authorization string) int {
	t.Helper()
	request, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", authorization)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode
}

// redisSay sends commands, and reads until the server has answered all of them or hangs up.
func redisSay(t *testing.T, address string, commands ...string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	fmt.Fprintf(conn, "%s\r\nQUIT\r\n", strings.Join(commands, "\r\n"))
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		if strings.Contains(lines.Text(), "stint_") {
			t.Errorf("the reply repeats a token: %q", lines.Text())
		}
	}
}
