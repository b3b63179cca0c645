//go:build docker

package chaos

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stint-io/stint/internal/testing/await"
)

// TestImageTriesItself runs the image of `make image` alone, like a user who tries it: it answers on the published
// port, says what it is, and ends by itself when it is stopped.
func TestImageTriesItself(t *testing.T) {
	port := freePort(t)
	name := "stint-test-" + port
	engine(t, "run", "-d", "--name", name, "-p", "127.0.0.1:"+port+":7400", "stint:dev", "serve", "--dev")
	t.Cleanup(func() { engine(t, "rm", "-f", "-v", name) })
	client := newClient("127.0.0.1:" + port)
	var got answer
	var err error
	await.Until(t, "it answers", func() bool {
		got, err = client.check("login", "user:42", "image-"+port)
		return err == nil && got == admitted
	}, &err)
	for label, want := range map[string]string{"licenses": "Apache-2.0", "title": "stint",
		"source": "https://github.com/stint-io/stint"} {
		if said := engine(t, "inspect", "-f", `{{index .Config.Labels "org.opencontainers.image.`+label+`"}}`,
			name); said != want {
			t.Errorf("label %s: %q, want %q", label, said, want)
		}
	}
	said := engine(t, "exec", name, "/stint", "version")
	if !regexp.MustCompile(`^stint \S+ [0-9a-f]{40} go`).MatchString(said) {
		t.Errorf("it does not say what it is: %q", said)
	}
	if texts := engine(t, "cp", name+":/third-party-licenses", "-"); !strings.Contains(texts,
		"\n---- connectrpc.com/connect v") {
		t.Error("it has no licenses of what it links")
	}
	engine(t, "stop", "-t", "20", name)
	if code := engine(t, "inspect", "-f", "{{.State.ExitCode}}", name); code != "0" {
		t.Errorf("it ends with %s", code)
	}
}

// engine runs a command of Docker's, and returns all that it says.
func engine(t *testing.T, arguments ...string) string {
	t.Helper()
	out, err := exec.Command("docker", arguments...).CombinedOutput()
	if err != nil {
		t.Fatalf("docker %q: %v\n%s", arguments, err, out)
	}
	return strings.TrimSpace(string(out))
}
