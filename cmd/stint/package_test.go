package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// The packages' stint.yaml shows examples in comments: each is a flag of serve with a value that it takes.
func TestTheConfigurationOfPackagesIsUnderstood(t *testing.T) {
	text, err := os.ReadFile("../../deploy/package/stint.yaml")
	if err != nil {
		t.Fatal(err)
	}
	example := regexp.MustCompile(`(?m)^#([a-z-]+: )`)
	if len(example.FindAll(text, -1)) < 10 {
		t.Fatal("the file shows no examples")
	}
	path := filepath.Join(t.TempDir(), "stint.yaml")
	if err := os.WriteFile(path, example.ReplaceAll(text, []byte("$1")), 0o600); err != nil {
		t.Fatal(err)
	}
	config, serve := &configFile{}, &struct {
		Serve serveCommand `cmd:""`
	}{}
	parser, err := kong.New(serve, kong.Resolvers(config), durations)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse([]string{"serve", "--config", path}); err != nil {
		t.Fatal(err)
	}
	if serve.Serve.DataDir != "/var/lib/stint" || len(serve.Serve.Join) != 3 {
		t.Errorf("it says %+v", serve.Serve)
	}
}

// An operator who looks at a failed unit sees the end of its output: the reason is the last line.
func TestWhatCannotStartSaysWhyInItsLastLine(t *testing.T) {
	path, err := exec.LookPath("stint")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("frobnicate: 7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ environment, want string }{
		"a variable without a meaning":   {"STINT_SHARDS=many", "many"},
		"a flag out of range":            {"STINT_SHARDS=0", "--shards: must be at least 1"},
		"a configuration that is absent": {"STINT_CONFIG=" + file + ".yaml", "no such file"},
		"an unknown key":                 {"STINT_CONFIG=" + file, `"frobnicate" is no flag`},
		"a data directory that is none":  {"STINT_DATA_DIR=" + file, "not a directory"},
		"an address of another machine":  {"STINT_API_ADDR=192.0.2.1:7400", "192.0.2.1:7400"},
		"policies that are absent":       {"STINT_POLICIES=" + file + ".yaml", "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			command := exec.CommandContext(t.Context(), path, "serve")
			command.Env = append(os.Environ(), "STINT_DATA_DIR="+filepath.Join(t.TempDir(), "data"),
				"STINT_API_ADDR=127.0.0.1:0", "STINT_PEER_ADDR=127.0.0.1:0", "STINT_GOSSIP_ADDR=127.0.0.1:0",
				c.environment)
			text, err := command.CombinedOutput()
			lines := strings.Split(strings.TrimSpace(string(text)), "\n")
			if last := lines[len(lines)-1]; err == nil || !strings.HasPrefix(last, "stint: ") ||
				!strings.Contains(last, c.want) {
				t.Errorf("%v\n%s", err, text)
			}
		})
	}
}
