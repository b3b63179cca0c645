package examples

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extauthzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"go.yaml.in/yaml/v4"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/stint-io/stint/internal/testing/testcluster"
)

// documentsOf reads the documents of a file of YAML.
func documentsOf(t *testing.T, file string) (documents []map[string]any) {
	t.Helper()
	decoder := yaml.NewDecoder(strings.NewReader(text(t, file)))
	for {
		var d map[string]any
		err := decoder.Decode(&d)
		if errors.Is(err, io.EOF) {
			return documents
		}
		if err != nil || len(d) == 0 {
			t.Fatalf("%s: %v %v", file, d, err)
		}
		documents = append(documents, d)
	}
}

// at returns what is in a tree of YAML at a path, such as spec/services/0/port.
func at(tree any, path string) any {
	for step := range strings.SplitSeq(path, "/") {
		switch of := tree.(type) {
		case map[string]any:
			tree = of[step]
		case []any:
			var i int
			if _, err := fmt.Sscan(step, &i); err != nil || i >= len(of) {
				return nil
			}
			tree = of[i]
		default:
			return nil
		}
	}
	return tree
}

// The filter of the example has no field that Envoy does not know, and no value that it refuses at once.
func TestTheFilterOfEnvoyIsWellFormed(t *testing.T) {
	filter := documentsOf(t, "ext-authz/envoy.yaml")[0]
	of := filter["typed_config"].(map[string]any)
	delete(of, "@type")
	data, err := json.Marshal(of)
	if err != nil {
		t.Fatal(err)
	}
	var config extauthzv3.ExtAuthz
	if err := protojson.Unmarshal(data, &config); err != nil {
		t.Fatal(err)
	}
	if err := config.ValidateAll(); err != nil || config.FailureModeAllow {
		t.Error(err, config.FailureModeAllow)
	}
}

// The manifests are YAML, and each asks a gate that the policies beside it have: a visitor who logs in six times behind
// any of them is denied once. Only the question is made here, as the manifest says, by grpc-go or by HTTP.
func TestManifestsAskTheGateOfTheirPolicies(t *testing.T) {
	t.Parallel()
	needLinux(t)
	policies := text(t, "ext-authz/policies.yaml")
	const pods = "10.244.0.0/16"
	if strings.Count(policies, pods) != 1 {
		t.Fatalf("the policies trust no network %s", pods)
	}
	c := testcluster.Run(t, testcluster.Options{Nodes: 1, Direct: true,
		Policies: strings.Replace(policies, pods, "127.0.0.1/32", 1)})
	conn, err := grpc.NewClient(c.Addr(0), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	manifests := map[string]struct {
		document int
		gate     string // the place of its name; "": it names none
		port     string
	}{
		"envoy.yaml":         {},
		"envoy-gateway.yaml": {0, "spec/extAuth/contextExtensions/0/value", "spec/extAuth/grpc/backendRefs/0/port"},
		"istio.yaml":         {0, "", "spec/meshConfig/extensionProviders/0/envoyExtAuthzGrpc/port"},
		"kgateway.yaml":      {2, "spec/extAuth/contextExtensions/gate", ""},
		"contour.yaml":       {1, "spec/virtualhost/authorization/authPolicy/context/gate", ""},
		"apisix.yaml":        {0, "routes/0/plugins/forward-auth/uri", ""},
	}
	files, err := filepath.Glob("ext-authz/*.yaml")
	if err != nil || len(files) != len(manifests)+1 {
		t.Fatalf("%v %v", files, err)
	}
	for i, file := range files {
		m, isManifest := manifests[filepath.Base(file)]
		if !isManifest {
			continue // the policies
		}
		document := documentsOf(t, file)[m.document]
		if port := at(document, m.port); m.port != "" && port != 7403 {
			t.Errorf("%s: the port %v is not that of gRPC", file, port)
		}
		name, _ := at(document, m.gate).(string)
		if m.gate != "" && name == "" {
			t.Fatalf("%s names no gate", file)
		}
		visitor := fmt.Sprint("203.0.113.", i)
		var codes []int
		for range 6 {
			if _, uri, byHTTP := strings.Cut(name, "://"); byHTTP {
				codes = append(codes, asAPISIX(t, c.Addr(0)+uri[strings.IndexByte(uri, '/'):], visitor))
				continue
			}
			codes = append(codes, asEnvoy(t, conn, name, visitor))
		}
		if fmt.Sprint(codes) != "[200 200 200 200 200 429]" {
			t.Errorf("%s, gate %q: %v", file, name, codes)
		}
	}
}

// asEnvoy asks about a login as Envoy does, and returns the status that the visitor gets.
func asEnvoy(t *testing.T, conn *grpc.ClientConn, gate, visitor string) int {
	t.Helper()
	m := &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		Source: &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{
			SocketAddress: &corev3.SocketAddress{Address: visitor}}}},
		Request: &authv3.AttributeContext_Request{
			Http: &authv3.AttributeContext_HttpRequest{Method: "POST", Path: "/login"}}}}
	if gate != "" {
		m.Attributes.ContextExtensions = map[string]string{"gate": gate}
	}
	answer, err := authv3.NewAuthorizationClient(conn).Check(t.Context(), m, grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	if answer.GetStatus().GetCode() == 0 {
		return http.StatusOK
	}
	return int(answer.GetDeniedResponse().GetStatus().GetCode())
}

// asAPISIX asks about a login as APISIX does.
func asAPISIX(t *testing.T, address, visitor string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{"X-Forwarded-Proto": {"https"}, "X-Forwarded-Method": {"POST"},
		"X-Forwarded-Host": {"shop.example.com"}, "X-Forwarded-Uri": {"/login"}, "X-Forwarded-For": {visitor}}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	return answer.StatusCode
}
