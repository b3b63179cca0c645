package api

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/stint-io/stint/api/gates"
	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/policy"
)

// tokens are the tokens of a guard, by name.
type tokens struct {
	guard   *auth.Guard
	text    map[string]string
	records []auth.Record
}

func newTokens() *tokens {
	k := &tokens{guard: auth.NewGuard(time.Now), text: map[string]string{}}
	k.learn()
	return k
}

func (k *tokens) learn() {
	k.guard.Learn(auth.NewSet(slices.Clone(k.records), true, nil))
	k.guard.Heard(time.Now())
}

// add makes a token and returns its text.
func (k *tokens) add(t *testing.T, name string, grants ...string) string {
	t.Helper()
	text, err := auth.NewToken(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	r := auth.Record{Name: name}
	if err := r.SetToken(text); err != nil {
		t.Fatal(err)
	}
	for _, g := range grants {
		grant, err := auth.ParseGrant(g)
		if err != nil {
			t.Fatal(err)
		}
		r.Grants = append(r.Grants, grant)
	}
	k.records, k.text[name] = append(k.records, r), text
	k.learn()
	return text
}

// revoke ends a token.
func (k *tokens) revoke(name string) {
	k.records = slices.DeleteFunc(k.records, func(r auth.Record) bool { return r.Name == name })
	k.learn()
}

// procedures lists every procedure of the contract, and those of Envoy.
func procedures(t *testing.T) (all []string) {
	t.Helper()
	protoregistry.GlobalFiles.RangeFilesByPackage("stint.v1", func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				all = append(all, "/"+string(service.FullName())+"/"+string(service.Methods().Get(j).Name()))
			}
		}
		return true
	})
	if len(all) < 20 {
		t.Fatalf("the contract has %d procedures", len(all))
	}
	return append(all, EnvoyProcedure, ExtAuthzProcedure)
}

// unread fails the test when the body of a request is read.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body is read before the caller is known")
	return 0, io.EOF
}

func TestWithoutATokenNothingIsReadOrDone(t *testing.T) {
	k := newTokens()
	k.add(t, "root", "ops=admin")
	w := newGuardedWorld(t, k.guard)
	paths := append(procedures(t), gates.Prefix, "/gate/web", "/gate/web/login", "/metrics", "/openapi.yaml",
		"/nothing", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
		"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")
	for path := range maps.Keys(w.api.registry.gate.ops) {
		if !slices.Contains(paths, path) {
			t.Errorf("%s is served and not in the contract: add it to this test", path)
		}
	}
	for _, path := range paths {
		for _, kind := range []string{"application/json", "application/proto", "application/connect+proto",
			"application/connect+json", "application/grpc", "application/grpc-web", "application/grpc+json",
			"text/plain", ""} {
			for _, method := range []string{"POST", "GET", "PUT", "OPTIONS"} {
				for _, header := range []string{"", "Bearer stint_x", "Basic cm9vdDpyb290",
					"Bearer " + k.text["root"][1:]} {
					r := httptest.NewRequestWithContext(t.Context(), method,
						w.url+path+"?connect=v1&encoding=json&message={}", unread{t})
					r.ProtoMajor = 2
					r.Header.Set("Content-Type", kind)
					if header != "" {
						r.Header.Set("Authorization", header)
						r.Header.Set("Stint-Token", strings.TrimPrefix(header, "Bearer "))
					}
					answer := httptest.NewRecorder()
					w.api.ServeHTTP(answer, r)
					refused := answer.Code == http.StatusUnauthorized ||
						answer.Code == http.StatusOK && answer.Result().Trailer.Get("Grpc-Status") == "16" ||
						answer.Code == http.StatusOK && answer.Header().Get("Grpc-Status") == "16" ||
						// an end of stream
						answer.Code == http.StatusOK && strings.Contains(answer.Body.String(), "unauthenticated") ||
						// gRPC-Web
						answer.Code == http.StatusOK && strings.Contains(answer.Body.String(), "grpc-status: 16")
					if !refused {
						t.Errorf("%s %s as %q with %q: %d %v %q",
							method, path, kind, header, answer.Code, answer.Result().Trailer, answer.Body)
					}
				}
			}
		}
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if code, _, _ := w.do("GET", path, "", ""); code != http.StatusOK {
			t.Errorf("%s: %d", path, code)
		}
	}
	if calls := w.decider.requests(); len(calls) > 0 {
		t.Errorf("%d requests were decided", len(calls))
	}
}

func TestWithoutATokenGRPCIsRefused(t *testing.T) {
	k := newTokens()
	root := k.add(t, "root", "ops=admin")
	for _, door := range []string{"connect", "grpc-go"} {
		w := newGuardedWorld(t, k.guard)
		addr := w.grpcAddr
		if door == "connect" {
			addr = strings.TrimPrefix(w.url, "http://")
		}
		conn := w.dial(addr)
		for _, procedure := range append(procedures(t), "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo") {
			ask := func(ctx context.Context) error {
				stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true},
					procedure)
				if err != nil {
					return err
				}
				defer stream.CloseSend()
				if err := stream.SendMsg(&stintv1.StatusRequest{}); err != nil && !errors.Is(err, io.EOF) {
					return err
				}
				stream.CloseSend()
				return stream.RecvMsg(&stintv1.StatusResponse{})
			}
			if door == "grpc-go" && (procedure == stintv1connect.ClusterServiceBackupProcedure ||
				procedure == stintv1connect.ObserveServiceWatchProcedure) {
				continue // it is not served there
			}
			if err := ask(t.Context()); status.Code(err) != codes.Unauthenticated {
				t.Errorf("%s: %s without a token: %v", door, procedure, err)
			}
			wrong := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+root[:len(root)-1]+"_")
			if err := ask(wrong); status.Code(err) != codes.Unauthenticated {
				t.Errorf("%s: %s with a wrong token: %v", door, procedure, err)
			}
			right := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+root)
			local := procedure == stintv1connect.TokenServiceTurnOffProcedure // refused whatever was granted
			if err := ask(right); status.Code(err) == codes.Unauthenticated ||
				status.Code(err) == codes.PermissionDenied && !local {
				t.Errorf("%s: %s with a token that may do everything: %v", door, procedure, err)
			}
		}
	}
}

// withToken is an HTTP client that sends a token.
func withToken(text string) connect.HTTPClient {
	return &http.Client{Transport: bearer(text)}
}

type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

func TestATokenMayDoWhatItSaysAndNothingElse(t *testing.T) {
	k := newTokens()
	k.add(t, "web", "policy=per-ip key=user:* ops=check,settle")
	w := newGuardedWorld(t, k.guard)
	limits := stintv1connect.NewLimitServiceClient(withToken(k.text["web"]), w.url)
	policies := stintv1connect.NewPolicyServiceClient(withToken(k.text["web"]), w.url)
	check := func(namespace, tier string, keys ...string) *stintv1.CheckRequest {
		m := &stintv1.CheckRequest{Namespace: namespace}
		for _, key := range keys {
			m.Entries = append(m.Entries, &stintv1.Entry{Policy: "per-ip", Key: key, Tier: tier})
		}
		return m
	}
	inline := check("", "", "user:1")
	inline.Entries[0].Limits = []*stintv1.Limit{{Name: "l",
		Algorithm: &stintv1.Limit_Lifetime{Lifetime: &stintv1.Lifetime{}}}}
	other := check("", "", "user:1")
	other.Entries[0].Policy = "api"
	unknown := check("", "", "user:1")
	unknown.Entries[0].Policy = "no-such-policy"
	for name, c := range map[string]struct {
		m    *stintv1.CheckRequest
		want connect.Code // 0: it is allowed
	}{
		"its own":                           {check("", "", "user:1", "user:2"), 0},
		"a key of others beside its own":    {check("", "", "user:1", "org:1"), connect.CodePermissionDenied},
		"a tier that was not granted":       {check("", "gold", "user:1"), connect.CodePermissionDenied},
		"limits of its own":                 {inline, connect.CodePermissionDenied},
		"another policy":                    {other, connect.CodePermissionDenied},
		"a policy that does not exist":      {unknown, connect.CodePermissionDenied}, // as one that does
		"a key that is none":                {check("", "", strings.Repeat("x", 5000)), connect.CodePermissionDenied},
		"another namespace, narrowed below": {check("shop", "", "org:1"), connect.CodePermissionDenied},
	} {
		before := len(w.decider.requests())
		_, err := limits.Check(t.Context(), connect.NewRequest(c.m))
		if got := connect.CodeOf(err); c.want != 0 && got != c.want || c.want == 0 && err != nil {
			t.Errorf("check of %s: %v", name, err)
		}
		_, err = limits.Reserve(t.Context(), connect.NewRequest(&stintv1.ReserveRequest{Check: c.m}))
		if got := connect.CodeOf(err); c.want != 0 && got != c.want || c.want == 0 && err != nil {
			t.Errorf("reservation of %s: %v", name, err)
		}
		batch, err := limits.CheckBatch(t.Context(),
			connect.NewRequest(&stintv1.CheckBatchRequest{Checks: []*stintv1.CheckRequest{c.m,
				check("", "", "user:9")}}))
		if err != nil {
			t.Fatal(err)
		}
		if got := batch.Msg.Results[0].GetFailure().GetCode(); c.want != 0 && got != c.want.String() ||
			c.want == 0 && got != "" {
			t.Errorf("batch with %s: %v", name, batch.Msg.Results[0])
		}
		if batch.Msg.Results[1].GetDecision() == nil {
			t.Errorf("the check beside %s: %v", name, batch.Msg.Results[1])
		}
		decided := 1
		if c.want == 0 {
			decided = 4
		}
		if got := len(w.decider.requests()) - before; got != decided {
			t.Errorf("with %s %d requests were decided, want %d", name, got, decided)
		}
	}
	refused := func(what string, err error) {
		t.Helper()
		if connect.CodeOf(err) != connect.CodePermissionDenied {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := limits.Get(t.Context(), connect.NewRequest(&stintv1.GetRequest{Entries: check("", "", "user:1").Entries}))
	refused("get", err)
	_, err = limits.Adjust(t.Context(), connect.NewRequest(&stintv1.AdjustRequest{Policy: "per-ip", Key: "user:1"}))
	refused("adjust", err)
	_, err = policies.List(t.Context(), connect.NewRequest(&stintv1.ListPoliciesRequest{}))
	refused("list of policies", err)
	_, err = policies.Apply(t.Context(), connect.NewRequest(&stintv1.ApplyRequest{}))
	refused("apply", err)
	_, err = stintv1connect.NewTokenServiceClient(withToken(k.text["web"]), w.url).List(t.Context(),
		connect.NewRequest(&stintv1.ListTokensRequest{}))
	refused("list of tokens", err)
}

// A sealed id proves that a caller counted, not that its bearer may settle it.
func TestASettlementNeedsAGrantOfItsKeys(t *testing.T) {
	k := newTokens()
	k.add(t, "own", "key=user:* ops=check,settle")
	k.add(t, "foreign", "key=org:* ops=check,settle")
	w := newGuardedWorld(t, k.guard)
	answer, err := stintv1connect.NewLimitServiceClient(withToken(k.text["own"]), w.url).Reserve(t.Context(),
		connect.NewRequest(
			&stintv1.ReserveRequest{
				Check: &stintv1.CheckRequest{Entries: []*stintv1.Entry{{Policy: "per-ip", Key: "user:1"}}}}))
	if err != nil || answer.Msg.Decision.HoldId == "" {
		t.Fatalf("%v: %v", answer, err)
	}
	settle := func(name string) error {
		_, err := stintv1connect.NewLimitServiceClient(withToken(k.text[name]), w.url).Settle(t.Context(),
			connect.NewRequest(
				&stintv1.SettleRequest{Target: &stintv1.SettleRequest_HoldId{HoldId: answer.Msg.Decision.HoldId},
					Action: &stintv1.SettleRequest_Cancel{Cancel: &stintv1.Cancel{}}}))
		return err
	}
	if err := settle("foreign"); connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("a token of other keys: %v", err)
	}
	if err := settle("own"); err != nil {
		t.Error(err)
	}
}

// Who may reserve a key may settle that, too: the parents of its policy were added without a grant.
func TestASettlementNeedsNoGrantOfParents(t *testing.T) {
	k := newTokens()
	k.add(t, "own", "policy=product key=eu/acme/* ops=check,settle")
	k.add(t, "pool", "policy=vendor,product key=eu/acme,eu/acme/* ops=check,settle")
	w := newGuardedWorld(t, k.guard)
	w.revision = &policy.Revision{Version: 8, Set: familyPolicies()}
	settle := func(by, name string, entries ...*stintv1.Entry) error {
		limits := stintv1connect.NewLimitServiceClient(withToken(k.text[by]), w.url)
		answer, err := limits.Reserve(t.Context(), connect.NewRequest(&stintv1.ReserveRequest{
			Check: &stintv1.CheckRequest{Entries: entries}}))
		if err != nil {
			t.Fatal(err)
		}
		_, err = stintv1connect.NewLimitServiceClient(withToken(k.text[name]), w.url).Settle(t.Context(),
			connect.NewRequest(&stintv1.SettleRequest{
				Target: &stintv1.SettleRequest_HoldId{HoldId: answer.Msg.Decision.HoldId},
				Action: &stintv1.SettleRequest_Cancel{Cancel: &stintv1.Cancel{}}}))
		return err
	}
	product, vendor := &stintv1.Entry{Policy: "product", Key: "eu/acme/x"}, &stintv1.Entry{Policy: "vendor", Key: "eu/acme"}
	if err := settle("own", "own", product); err != nil {
		t.Error(err)
	}
	if got := len(w.last().Entries); got != 3 {
		t.Errorf("%d entries were settled", got)
	}
	for _, named := range [][]*stintv1.Entry{{vendor}, {vendor, product}} {
		if err := settle("pool", "own", named...); connect.CodeOf(err) != connect.CodePermissionDenied {
			t.Errorf("%v: a parent that was named: %v", named, err)
		}
	}
}

func TestTheAuditLogNamesTheToken(t *testing.T) {
	k := newTokens()
	k.add(t, "support", "ops=adjust")
	w := newGuardedWorld(t, k.guard)
	limits := stintv1connect.NewLimitServiceClient(withToken(k.text["support"]), w.url)
	for actor, want := range map[string]string{"": "token:support", "alice": "token:support for alice"} {
		r := connect.NewRequest(&stintv1.AdjustRequest{Policy: "per-ip", Key: "user:1",
			Op: &stintv1.AdjustRequest_Reset_{Reset_: &stintv1.Reset{}}})
		if actor != "" {
			r.Header().Set("Stint-Actor", actor)
		}
		if _, err := limits.Adjust(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		requests := w.decider.requests()
		if got := requests[len(requests)-1].Adjustment.Actor; got != want {
			t.Errorf("with the header %q the actor is %q, want %q", actor, got, want)
		}
	}
}

func TestARevokedTokenEndsItsStreams(t *testing.T) {
	for _, door := range []string{"connect", "grpc-go"} {
		k := newTokens()
		k.add(t, "web", "ops=check")
		w := newGuardedWorld(t, k.guard)
		addr := w.grpcAddr
		if door == "connect" {
			addr = strings.TrimPrefix(w.url, "http://")
		}
		conn := w.dial(addr)
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+k.text["web"])
		stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true},
			stintv1connect.LimitServiceCheckStreamProcedure)
		if err != nil {
			t.Fatal(err)
		}
		send(t, stream, batchWith(1, "a"))
		if _, err := answered(stream); err != nil {
			t.Fatal(err)
		}
		k.revoke("web")
		send(t, stream, batchWith(2, "a"))
		if _, err := answered(stream); status.Code(err) != codes.Unauthenticated {
			t.Errorf("%s: after the revocation: %v", door, err)
		}
		if got := len(w.decider.requests()); got != 1 {
			t.Errorf("%s: %d requests were decided", door, got)
		}
	}
}

// picturing writes a snapshot.
type picturing func(io.Writer) (int64, error)

func (p picturing) WriteTo(to io.Writer) (int64, error) { return p(to) }

// A backup takes as long as its reader likes: whoever has stolen a token gets no more of it once that is revoked.
func TestARevokedTokenEndsItsBackup(t *testing.T) {
	k := newTokens()
	k.add(t, "nightly", "ops=backup")
	w := newGuardedWorld(t, k.guard)
	var after error
	w.cluster.picturing = picturing(func(to io.Writer) (int64, error) {
		chunk := make([]byte, 2*pictureChunk) // more than is held back
		if _, err := to.Write(chunk); err != nil {
			return 0, err
		}
		k.revoke("nightly")
		_, after = to.Write(chunk)
		return 0, after
	})
	stream, err := stintv1connect.NewClusterServiceClient(withToken(k.text["nightly"]), w.url).Backup(t.Context(),
		connect.NewRequest(&stintv1.BackupRequest{Shard: "0"}))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	got := 0
	for stream.Receive() {
		got += len(stream.Msg().Data)
	}
	if connect.CodeOf(stream.Err()) != connect.CodeUnauthenticated || got != 2*pictureChunk || after == nil {
		t.Errorf("after the revocation: %d bytes, %v, %v", got, stream.Err(), after)
	}
}

// A client may send the message of a call long after its token was looked at.
func TestARevokedTokenEndsACallWhoseMessageIsLate(t *testing.T) {
	const body = `{"entries":[{"policy":"per-ip","key":"a"}]}`
	for _, kind := range []string{"application/json", "application/json; charset=UTF-8"} { // with and without the fast path
		k := newTokens()
		k.add(t, "web", "ops=check")
		w := newGuardedWorld(t, k.guard)
		conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: %s\r\n"+
			"Content-Length: %d\r\nExpect: 100-continue\r\n\r\n", stintv1connect.LimitServiceCheckProcedure,
			k.text["web"], kind, len(body))
		in := bufio.NewReader(conn)
		if line, err := in.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 100") {
			t.Fatalf("%s: before the message: %q, %v", kind, line, err)
		}
		in.ReadString('\n')
		k.revoke("web")
		io.WriteString(conn, body)
		answer, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if got := len(w.decider.requests()); answer.StatusCode != http.StatusUnauthorized || got != 0 {
			t.Errorf("%s: %s, and %d requests were decided", kind, answer.Status, got)
		}
	}
	k := newTokens()
	k.add(t, "web", "ops=check")
	w := newGuardedWorld(t, k.guard)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+k.text["web"])
	stream, err := w.dial(w.grpcAddr).NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true},
		stintv1connect.LimitServiceCheckBatchProcedure)
	if err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the look at the token", func() bool { return len(k.guard.Set().LastUses()) > 0 })
	k.revoke("web")
	send(t, stream, batchWith(1, "a"))
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := answered(stream); status.Code(err) != codes.Unauthenticated {
		t.Errorf("grpc-go: after the revocation: %v", err)
	}
	if got := len(w.decider.requests()); got != 0 {
		t.Errorf("grpc-go: %d requests were decided", got)
	}
}

func TestOnlyTheLocalSocketTurnsTokensOff(t *testing.T) {
	k := newTokens()
	root := k.add(t, "root", "ops=admin")
	w := newGuardedWorld(t, k.guard)
	_, err := stintv1connect.NewTokenServiceClient(withToken(root), w.url).TurnOff(t.Context(),
		connect.NewRequest(&stintv1.TurnOffTokensRequest{}))
	if connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("an administrator's token turns tokens off: %v", err)
	}
	local := httptest.NewServer(w.api.Local())
	defer local.Close()
	_, err = stintv1connect.NewTokenServiceClient(http.DefaultClient, local.URL).TurnOff(t.Context(),
		connect.NewRequest(&stintv1.TurnOffTokensRequest{}))
	if err != nil {
		t.Errorf("by the local socket: %v", err)
	}
}

// A client that may not observe learns where the owners are, which it needs, and nothing else.
func TestAClientLearnsWhereTheOwnersAre(t *testing.T) {
	k := newTokens()
	web, watcher := k.add(t, "web", "ops=check"), k.add(t, "watcher", "ops=observe")
	w := newGuardedWorld(t, k.guard)
	w.cluster.status = &stintv1.StatusResponse{ClusterId: "c", TableVersion: 7, Problems: []string{"node b is gone"},
		Nodes:  []*stintv1.Node{{Id: "a", ApiAddr: "127.0.0.1:7400", Version: "v9", Alive: true}},
		Shards: []*stintv1.Shard{{Owner: "a", Keys: 5}}}
	told := func(token string) *stintv1.StatusResponse {
		answer, err := stintv1connect.NewClusterServiceClient(withToken(token), w.url).Status(t.Context(),
			connect.NewRequest(&stintv1.StatusRequest{}))
		if err != nil {
			t.Fatal(err)
		}
		return answer.Msg
	}
	part := told(web)
	if !part.Partial || part.TableVersion != 0 || len(part.Problems) > 0 || part.Nodes[0].Version != "" ||
		part.Shards[0].Keys != 0 || part.Nodes[0].ApiAddr != "127.0.0.1:7400" || part.Shards[0].Owner != "a" {
		t.Errorf("a client is told %v", part)
	}
	if all := told(watcher); all.Partial || all.TableVersion != 7 || len(all.Problems) != 1 {
		t.Errorf("an observer is told %v", all)
	}
}

// A call waits until the node has the tokens, for as long as its client waits, and not at all if there are none.
func TestACallWaitsForTheTokens(t *testing.T) {
	const check, known = stintv1connect.LimitServiceCheckProcedure, time.Second
	for name, c := range map[string]struct {
		path, timeout string
		outside, full bool
		want          time.Duration
	}{
		"a check":                         {path: check, want: known},
		"with time enough":                {path: check, timeout: "1500", want: known},
		"with too little time":            {path: check, timeout: "200", want: 200 * time.Millisecond},
		"with a timeout that is none":     {path: check, timeout: "soon", want: known},
		"a gate":                          {path: "/gate/web/login", want: known},
		"a probe":                         {path: "/readyz"},
		"the state of the cluster":        {path: stintv1connect.ClusterServiceStatusProcedure, want: known},
		"without a cluster":               {path: check, outside: true, want: known},
		"a gate without a cluster":        {path: "/gate/web/login", outside: true, want: known},
		"the state of no cluster":         {path: stintv1connect.ClusterServiceStatusProcedure, outside: true},
		"when too many calls wait for it": {path: check, full: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			guard := auth.NewGuard(time.Now)
			guard.Learn(&auth.Set{Outside: c.outside})
			g := newGatekeeper(&Config{Guard: guard, RequestTimeout: 5 * time.Second}, reporter{})
			room := &g.admission
			g.ops[check], g.ops[gates.Prefix] = auth.Check, auth.Check
			if c.full {
				room.take(entriesUnderWay/2 - waitWeight)
				room.take(entriesUnderWay/4 - waitWeight)
				for room.take(waitWeight) {
				}
			}
			time.AfterFunc(known, func() { guard.Learn(auth.NewSet(nil, true, nil)) })
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, c.path, nil)
			if c.timeout != "" {
				r.Header.Set("Connect-Timeout-Ms", c.timeout)
			}
			began, before := time.Now(), room.taken.Load()
			g.await(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				deadline, bounded := r.Context().Deadline()
				if millis, err := strconv.Atoi(c.timeout); err == nil &&
					!deadline.Equal(began.Add(time.Duration(millis)*time.Millisecond)) {
					t.Errorf("%s: the deadline is %v (%v)", name, deadline.Sub(began), bounded)
				}
				if took := time.Since(began); took != c.want || room.taken.Load() != before {
					t.Errorf("%s goes on after %v, want %v; it keeps the room of %d",
						name, took, c.want, room.taken.Load()-before)
				}
			})).ServeHTTP(httptest.NewRecorder(), r)
		})
	}
}
