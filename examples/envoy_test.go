package examples

import (
	"encoding/json"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"go.yaml.in/yaml/v4"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/types/known/anypb"
)

// The configuration of Envoy has no field that Envoy does not know, and no value that it refuses at once. Envoy itself
// is not started.
func TestConfigurationOfEnvoyIsWellFormed(t *testing.T) {
	var tree any
	if err := yaml.Unmarshal([]byte(text(t, "envoy/envoy.yaml")), &tree); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	var config bootstrapv3.Bootstrap
	if err := protojson.Unmarshal(data, &config); err != nil {
		t.Fatal(err)
	}
	checked := 0
	check := func(m proto.Message) {
		checked++
		if v, ok := m.(interface{ ValidateAll() error }); ok && v.ValidateAll() != nil {
			t.Errorf("%s: %v", m.ProtoReflect().Descriptor().FullName(), v.ValidateAll())
		}
	}
	check(&config)
	if err := protorange.Range(config.ProtoReflect(), func(p protopath.Values) error {
		if of, ok := p.Index(-1).Value.Interface().(interface{ Interface() proto.Message }); ok {
			if packed, ok := of.Interface().(*anypb.Any); ok {
				m, err := packed.UnmarshalNew()
				if err != nil {
					return err
				}
				check(m)
			}
		}
		return nil
	}); err != nil || checked < 5 {
		t.Errorf("%d messages: %v", checked, err)
	}
}
