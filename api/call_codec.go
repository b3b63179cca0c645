package api

import (
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/stint-io/stint/api/wire"
)

// call receives one message. A message that cannot be read becomes a request with a fault, not a transport error, so
// that it is answered and counted like every other call.
type call[M any, P pointer[M]] struct {
	message M
	fault   error
}

type pointer[M any] interface {
	*M
	proto.Message
}

func (c *call[M, P]) read(data []byte, unmarshal func([]byte, proto.Message) error) {
	c.fault = unmarshal(data, P(&c.message))
}

// reader is the interface of a *call.
type reader interface {
	read(data []byte, unmarshal func([]byte, proto.Message) error)
}

// codec is a message encoding, on the fast path and for connect. It reads into a call instead of a bare request.
type codec struct {
	name        string
	contentType []string // as a header value
	read        func([]byte, proto.Message) error
	write       func([]byte, proto.Message) ([]byte, error)
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
