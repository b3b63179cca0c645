package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/internal/offline/backup"
	"github.com/stint-io/stint/internal/offline/restore"
)

func TestWhatATerminalWouldObeyOrHideIsEscaped(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"a\tb\nc d\n", "a\tb\nc d\n"},
		{"naïve 日本 🙂 e\u0301", "naïve 日本 🙂 e\u0301"},
		{"\x1b[2J\x1b]0;x\a \r\b\x7f\x00 \u009b1m", `\x1b[2J\x1b]0;x\a \r\b\x7f\x00 \u009b1m`},
		{"\u202auser\u202e \u2066x\u2069 \u200e\u200f\u061c", `\u202auser\u202e \u2066x\u2069 \u200e\u200f\u061c`},
		{"a\u200bb\u00adc\ufeff \u2060", `a\u200bb\u00adc\ufeff \u2060`},
		{"a\u00a0b\u3000c\u2028d\u2029", `a\u00a0b\u3000c\u2028d\u2029`},
		{"a\ufe0fb\U000e0100\U000e0041 \u3164\u115f", `a\ufe0fb\U000e0100\U000e0041 \u3164\u115f`},
		{"a\x9b\xff\xe2\x80", `a\x9b\xff\xe2\x80`},
	} {
		var out bytes.Buffer
		if n, err := fmt.Fprint(printable{&out}, c.text); err != nil || n != len(c.text) || out.String() != c.want {
			t.Errorf("%q: %d, %v, %q", c.text, n, err, out.String())
		}
	}
}

// hostile is a key, a note and a reason at once: it turns the text behind it around, and clears the screen.
const hostile = "user:\u202e24\x1b[2J"

// hostileServer answers with texts chosen by others.
type hostileServer struct {
	stintv1connect.UnimplementedLimitServiceHandler
	stintv1connect.UnimplementedObserveServiceHandler
}

func (hostileServer) Get(
	context.Context, *connect.Request[stintv1.GetRequest],
) (*connect.Response[stintv1.GetResponse], error) {
	now := timestamppb.Now()
	return connect.NewResponse(&stintv1.GetResponse{At: now, Limits: []*stintv1.LimitStatus{
		{Policy: "p", Limit: "l", Key: hostile, Used: 1, Quota: 2, Remaining: 1, Allowed: true, BlockedUntil: now},
		{Policy: "q", Limit: "l", Key: "user:0123456789012345", Used: 1, Quota: 2, Remaining: 1, Allowed: true}}}), nil
}

func (hostileServer) Top(
	context.Context, *connect.Request[stintv1.TopRequest],
) (*connect.Response[stintv1.TopResponse], error) {
	return connect.NewResponse(
		&stintv1.TopResponse{Keys: []*stintv1.TopKey{{Policy: "p", Key: hostile, Decisions: 1}}}), nil
}

func (hostileServer) Audit(
	context.Context, *connect.Request[stintv1.AuditRequest],
) (*connect.Response[stintv1.AuditResponse], error) {
	return connect.NewResponse(&stintv1.AuditResponse{Records: []*stintv1.AuditRecord{
		{At: timestamppb.Now(), Actor: hostile, Deed: "add", Policy: "p", Key: hostile, Note: hostile}}}), nil
}

func (hostileServer) ListUsage(
	context.Context, *connect.Request[stintv1.ListUsageRequest],
) (*connect.Response[stintv1.ListUsageResponse], error) {
	return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("key: %s", hostile))
}

func TestTextsOfOthersAreShownEscaped(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle(stintv1connect.NewLimitServiceHandler(hostileServer{}))
	mux.Handle(stintv1connect.NewObserveServiceHandler(hostileServer{}))
	server := httptest.NewServer(mux)
	defer server.Close()
	for _, c := range []struct {
		times int // that the text is shown
		args  string
	}{{2, "get p user:42"}, {1, "keys top --once"}, {3, "audit"}, {1, "usage"}, {1, "status " + hostile}} {
		args := strings.Split(c.args, " ")
		if args[0] != "status" {
			args = append(args, "--addr", server.URL)
		}
		_, stdout, stderr := stint(args...)
		if text := stdout + stderr; strings.ContainsAny(text, "\u202e\x1b") ||
			strings.Count(text, `user:\u202e24\x1b[2J`) != c.times {
			t.Errorf("%s: %q", c.args, text)
		}
	}
	// The columns are aligned as they are shown.
	_, stdout, _ := stint("get", "p", "k", "--addr", server.URL)
	if lines := strings.Split(stdout, "\n"); len(lines) < 3 ||
		strings.Index(lines[1], "1     2") != strings.Index(lines[2], "1     2") {
		t.Errorf("not aligned:\n%s", stdout)
	}
	// Programs get the texts as they are.
	if _, stdout, _ := stint("keys", "top", "-o", "json", "--addr", server.URL); !strings.Contains(stdout,
		`"user:`+"\u202e"+`24\u001b[2J"`) {
		t.Errorf("as JSON: %q", stdout)
	}
}

// A backup says of itself whatever its writer wanted.
func TestABackupsHeaderIsShownEscaped(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.backup")
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	header := backup.Header{Cluster: "c", Release: hostile, Level: 1 << 15, Shards: 1,
		Recovery: &backup.Recovery{Actor: hostile, Inputs: []string{hostile + "\nno count is lost"}}}
	w, err := backup.NewWriter(out, header)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := w.Section(func(to io.Writer) error { _, err := io.WriteString(to, "x"); return err }); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	out.Close()
	code, stdout, stderr := stint("restore", file, "--data-dir", filepath.Join(t.TempDir(), "new"), "--dry-run")
	if text := stdout + stderr; code != 1 || strings.ContainsAny(text, "\u202e\x1b") ||
		!strings.Contains(text, `run user:\u202e24\x1b[2J or newer`) {
		t.Errorf("%d: %q", code, text)
	}
	var plan bytes.Buffer
	printRestore(streams{out: printable{&plan}}, &restore.Restore{Backup: header})
	if strings.ContainsAny(plan.String(), "\u202e\x1b") || strings.Count(plan.String(), `user:\u202e24\x1b[2J`) != 3 ||
		!strings.Contains(plan.String(), `[2J\nno count`) {
		t.Errorf("%q", plan.String())
	}
}

// full is an output without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// A command prints without looking, and still fails if its output does: a script must not take half a list for all of
// it.
func TestAnOutputThatFailsFailsTheCommand(t *testing.T) {
	for _, command := range []string{"version", "version -o json", "policies schema", "status"} {
		var stderr strings.Builder
		args := strings.Fields(command)
		if command == "status" {
			args = append(args, "--addr", newCluster().serve(t))
		}
		if code := run(args, nil, full{}, &stderr); code != 1 || !strings.Contains(stderr.String(), "no space left") {
			t.Errorf("%s: exit code %d, %s", command, code, stderr.String())
		}
	}
}
