package api

import (
	"bytes"
	"fmt"

	"connectrpc.com/connect"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"

	"github.com/stint-io/stint/api/wire"
	"github.com/stint-io/stint/shard"
)

// call receives one message. A message that cannot be read becomes a request with a fault, not a transport error, so
// that it is answered and counted like every other call.
type call[M any, P pointer[M]] struct {
	message M
	fault   error // why message could not be read; then message means nothing
}

// pointer is the pointer to a message type M, which is what implements proto.Message.
type pointer[M any] interface {
	*M
	proto.Message
}

func (c *call[M, P]) read(data []byte, unmarshal func([]byte, proto.Message) error) {
	c.fault = unmarshal(data, P(&c.message))
}

// problem returns the reason why the message cannot be read, or nil.
func (c *call[M, P]) problem() error {
	if c.fault == nil {
		return nil
	}
	return shard.Invalidf("message", "%s", protoErrorText(c.fault))
}

// reader is the interface of a *call.
type reader interface {
	read(data []byte, unmarshal func([]byte, proto.Message) error)
}

// codec is a message encoding, on the fast path and for connect. It reads into a call instead of a bare request.
type codec struct {
	name        string   // behind "application/" in a content type of connect
	contentType []string // as a header value; shared by all answers
	read        func([]byte, proto.Message) error
	write       func([]byte, proto.Message) ([]byte, error) // appends to its first argument
}

var (
	jsonCodec  = &codec{"json", []string{"application/json"}, wire.UnmarshalJSON, wire.MarshalJSON}
	protoCodec = &codec{"proto", []string{"application/proto"}, unmarshalProto, wire.MarshalProto}
	utf8Codec  = &codec{"json; charset=utf-8", []string{"application/json; charset=utf-8"}, wire.UnmarshalJSON,
		wire.MarshalJSON}

	codecs = connect.WithHandlerOptions(
		connect.WithCodec(protoCodec), connect.WithCodec(jsonCodec), connect.WithCodec(utf8Codec))
)

// Name implements connect.Codec.
func (c *codec) Name() string { return c.name }

// Unmarshal implements connect.Codec for a *call.
func (c *codec) Unmarshal(data []byte, target any) error {
	target.(reader).read(data, c.read)
	return nil
}

// Marshal implements connect.Codec for a message.
func (c *codec) Marshal(message any) ([]byte, error) { return c.MarshalAppend(nil, message) }

// MarshalAppend lets connect reuse its buffers.
func (c *codec) MarshalAppend(buffer []byte, message any) ([]byte, error) {
	m, ok := message.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is no protobuf message", message)
	}
	return c.write(buffer, m)
}

// unmarshalProto reads a message. An Envoy before 1.22.10, 1.23.7, 1.24.5 or 1.25.4 sends the bytes of a header as they
// are, UTF-8 or not, and would let the request pass if that were an error (CVE-2023-27488). Later versions send "!" in
// place of an invalid byte; the same is done here, so that both count one key.
func unmarshalProto(data []byte, m proto.Message) error {
	err := proto.Unmarshal(data, m)
	if _, envoy := m.(*rlsv3.RateLimitRequest); envoy && err != nil { //mutant:not-text-passes-envoy
		data = bytes.Clone(data)
		cleanText(data, envoyText)
		return proto.Unmarshal(data, m)
	}
	return err
}
