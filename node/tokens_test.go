package node

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-io/stint/cluster/peer"
	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/internal/edge/clienttls"
	"github.com/stint-io/stint/internal/offline/restore"
	"github.com/stint-io/stint/internal/testing/await"
)

// spendAs checks a key at a node's API with a token, "" for none, and returns the status; 0: there is no answer.
func spendAs(n *Node, token string) (status int) {
	body := `{"entries":[{"policy":"stock","key":"a"}]}`
	r, err := http.NewRequest("POST", "http://"+n.APIAddr()+"/stint.v1.LimitService/Check", strings.NewReader(body))
	if err != nil {
		return 0
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := clientOf(n).Do(r)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	io.Copy(io.Discard, response.Body)
	return response.StatusCode
}

// bySocket calls a procedure by the socket in a node's data directory.
func bySocket(t testing.TB, dir, procedure string, message any) (answer map[string]any) {
	t.Helper()
	body, err := json.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialLocal(t, ctx, dir)
		}}
	response, err := (&http.Client{Transport: transport}).Post("http://local/stint.v1."+procedure, "application/json",
		bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %s, %v", procedure, response.Status, text, err)
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

type grants = []map[string]any

func createToken(t testing.TB, dir, name string, ops ...string) (text string) {
	t.Helper()
	text, _ = bySocket(t, dir, "TokenService/Create",
		map[string]any{"name": name, "grants": grants{{"ops": ops}}})["token"].(string)
	if text == "" {
		t.Fatalf("no token %s", name)
	}
	return text
}

// awaitStatus waits until each of the nodes answers a token with a status.
func (c *trio) awaitStatus(what, token string, status int, nodes ...int) {
	c.t.Helper()
	var got []int
	await.Until(c.t, what, func() bool {
		got = got[:0]
		for _, i := range nodes {
			got = append(got, spendAs(c.nodes[i], token))
		}
		return !slices.ContainsFunc(got, func(one int) bool { return one != status })
	}, &got)
}

func TestTokensOnEveryNode(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := trioToBe(t)
		for i := range c.nodes {
			c.start(i)
		}
		c.ready(0, 1, 2)
		dirs := []string{c.configs[0].DataDir, c.configs[1].DataDir, c.configs[2].DataDir}
		c.awaitStatus("nobody is asked before the first token", "", http.StatusOK, 0, 1, 2)
		root := createToken(t, dirs[0], "root", "admin")
		c.awaitStatus("every node asks for a token", "", http.StatusUnauthorized, 0, 1, 2)
		c.awaitStatus("every node knows the first token", root, http.StatusOK, 0, 1, 2)

		web := createToken(t, dirs[1], "web", "check")
		c.awaitStatus("every node knows the second token", web, http.StatusOK, 0, 1, 2)
		var uses map[string]any
		await.Until(t, "the list says when another node saw the token last", func() bool {
			uses = map[string]any{}
			for _, token := range bySocket(t, dirs[2], "TokenService/List", struct{}{})["tokens"].([]any) {
				token := token.(map[string]any)
				uses[token["name"].(string)] = token["lastUsed"]
			}
			return uses["web"] != nil && uses["root"] != nil
		}, &uses)

		// A token that is revoked while a node is down does not come back with that node.
		c.stop(2)
		bySocket(t, dirs[0], "TokenService/Revoke", map[string]any{"name": "web"})
		began := time.Now()
		c.awaitStatus("the revoked token is dead", web, http.StatusUnauthorized, 0, 1)
		t.Logf("a revoked token was dead on every node after %v", time.Since(began).Round(time.Millisecond))
		var lived atomic.Int64
		c.watchToken(2, web, &lived)
		c.awaitStatus("the node that was down asks for tokens", "", http.StatusUnauthorized, 2)
		c.awaitStatus("the node that was down knows the tokens", root, http.StatusOK, 2)
		if lived.Load() > 0 {
			t.Errorf("the node that was down has served the revoked token %d times", lived.Load())
		}

		// A node that joins lets no caller in before it knows the tokens.
		i := c.add("n4")
		var open atomic.Int64
		c.watchToken(i, "", &open)
		c.awaitStatus("the node that has joined knows the tokens", root, http.StatusOK, i)
		c.awaitStatus("the node that has joined asks for tokens", "", http.StatusUnauthorized, i)
		if open.Load() > 0 {
			t.Errorf("the node that joins has served %d requests without a token", open.Load())
		}

		bySocket(t, dirs[1], "TokenService/TurnOff", struct{}{})
		c.awaitStatus("nobody is asked any longer", "", http.StatusOK, 0, 1, 2, i)
		createToken(t, dirs[1], "again", "check")
		c.awaitStatus("the next token turns the asking on", "", http.StatusUnauthorized, 0, 1, 2, i)
		var audit string
		await.Until(t, "the audit log has all of it", func() bool {
			text, err := json.Marshal(bySocket(t, dirs[0], "ObserveService/Audit", map[string]any{"count": 100}))
			audit = string(text)
			for _, deed := range []string{"token create", "token revoke", "token off", "token on"} {
				if !strings.Contains(audit, fmt.Sprintf("%q", deed)) {
					return false
				}
			}
			return err == nil
		}, &audit)
		if strings.Contains(audit, root) || strings.Contains(c.journal.String(), root) ||
			strings.Contains(c.journal.String(), web) {
			t.Error("a token stands in the audit log or in a log")
		}
	})
}

// watchToken starts a node and counts how often it serves a token from its first moment on until it is ready.
func (c *trio) watchToken(i int, token string, served *atomic.Int64) {
	c.t.Helper()
	done := make(chan struct{})
	c.start(i)
	n := c.nodes[i]
	var watching sync.WaitGroup
	watching.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			if spendAs(n, token) == http.StatusOK {
				served.Add(1)
			}
			breathe()
		}
	})
	c.ready(i)
	close(done)
	watching.Wait()
}

func TestTheFirstTokenOfAFile(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		text, err := auth.NewToken(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		config := testConfig(t)
		config.AdminTokenFile = filepath.Join(t.TempDir(), "admin.token")
		if err := os.WriteFile(config.AdminTokenFile, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		n := start(t, config)
		await.Until(t, "the token of the file is the first one", func() bool {
			return spendAs(n, "") == http.StatusUnauthorized && spendAs(n, text) == http.StatusOK
		})
		// The file is for a cluster without tokens: what was revoked does not come back with it.
		createToken(t, config.DataDir, "other", "admin")
		bySocket(t, config.DataDir, "TokenService/Revoke", map[string]any{"name": firstTokenName})
		stop(t, n)
		n = start(t, config)
		defer stop(t, n)
		if status := spendAs(n, text); status != http.StatusUnauthorized {
			t.Errorf("the revoked token of the file: %d", status)
		}
	})
}

// A secret that every user of the machine may read is one that they have.
func TestASecretThatEverybodyMayReadIsNamed(t *testing.T) {
	var said bytes.Buffer
	config := Config{Logger: slog.New(slog.NewTextHandler(&said, nil)), ClientTLS: &clienttls.Files{},
		PeerTLS: &peer.TLS{}}
	for flag, file := range map[string]*string{"admin-token-file": &config.AdminTokenFile,
		"api-key": &config.ClientTLS.Key, "peer-key": &config.PeerTLS.KeyFile, "cluster-key": &config.ClusterKeyFile} {
		*file = filepath.Join(t.TempDir(), flag)
		for _, mode := range []os.FileMode{0o600, 0o640, 0o644} {
			said.Reset()
			if err := errors.Join(os.WriteFile(*file, nil, mode), os.Chmod(*file, mode)); err != nil {
				t.Fatal(err)
			}
			config.warnOfExposed()
			if got := strings.Contains(said.String(), "flag="+flag); got != (mode&0o004 != 0) {
				t.Errorf("%s with mode %v: the log says %q", flag, mode, &said)
			}
		}
		*file = ""
	}
}

func TestAnAdminTokenFileThatHoldsNoneIsRefused(t *testing.T) {
	config := testConfig(t)
	config.AdminTokenFile = filepath.Join(t.TempDir(), "admin.token")
	if err := os.WriteFile(config.AdminTokenFile, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), config); err == nil || !strings.Contains(err.Error(), "stint token generate") {
		t.Errorf("it starts: %v", err)
	}
}

// A token that was revoked after the backup comes back with it: it may count, and no longer administer.
func TestARestoreBringsNoAdministratorBack(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		config := onRealDisk(t)
		n := start(t, config)
		root, web := createToken(t, config.DataDir, "root", "admin"),
			createToken(t, config.DataDir, "web", "check", "policies")
		file := backedUp(t, n)
		bySocket(t, config.DataDir, "TokenService/Revoke", map[string]any{"name": "root"})
		stop(t, n)
		dir := filepath.Join(t.TempDir(), "restored")
		if err := planned(t, file, restore.Config{DataDir: dir}).Write(); err != nil {
			t.Fatal(err)
		}
		config.DataDir = dir
		n = start(t, config)
		defer stop(t, n)
		for _, c := range []struct {
			token string
			op    auth.Op
			want  bool
		}{{root, auth.Tokens, false}, {root, auth.Check, false}, {web, auth.Check, true}, {web, auth.Policies, false}} {
			caller, refusal := n.tokens.guard.Caller(auth.Proof{Token: c.token})
			if refusal != nil || caller.MaySomewhere(c.op) != c.want {
				t.Errorf("after the restore a token may %v: want %v (%v)", c.op, c.want, refusal)
			}
		}
		if status := spendAs(n, ""); status != http.StatusUnauthorized {
			t.Errorf("the restored cluster asks for no token: %d", status)
		}
		fresh := createToken(t, dir, "root2", "admin")
		await.Until(t, "the socket makes the next administrator", func() bool {
			return spendAs(n, fresh) == http.StatusOK
		})
	})
}
