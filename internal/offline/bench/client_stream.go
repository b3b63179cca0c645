package bench

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
)

// streamClient is one caller with its own CheckStream, on an HTTP/2 connection that it shares with others. A call is a
// message and its answer: only more callers put more calls in flight.
type streamClient struct {
	conns   []*grpc.ClientConn
	at      int // index of the current connection
	codec   wireCodec
	timeout time.Duration

	stream        grpc.ClientStream // nil: not open
	life          context.Context   // of the stream
	end           context.CancelFunc
	message, body []byte
}

var checkStream = &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}

func (s *streamClient) check(keys []uint32, fates []fate) error {
	if s.end == nil {
		s.life, s.end = context.WithCancel(context.Background())
	}
	late := time.AfterFunc(s.timeout, s.end)
	failure := s.ask(keys)
	inTime := late.Stop()
	if !inTime || failure != nil {
		s.close()
	}
	switch {
	case failure == nil:
		return s.codec.readBatch(s.body, fates)
	case !inTime:
		failure.code = "deadline_exceeded" // grpc-go reports only that the stream was canceled
	}
	return failure
}

// ask sends a batch and leaves the answer in s.body.
func (s *streamClient) ask(keys []uint32) *callError {
	if err := s.open(); err != nil {
		failure := grpcError(err)
		failure.fate = failed // nothing was sent
		return failure
	}
	s.message = s.codec.appendBatch(s.message[:0], keys)
	err := s.stream.SendMsg(&s.message)
	if err == nil || errors.Is(err, io.EOF) { // EOF: the stream has ended, and RecvMsg returns the reason
		err = s.stream.RecvMsg(&s.body)
	}
	if err != nil {
		s.message = nil // the transport may still hold it
		return grpcError(err)
	}
	return nil
}

// open begins a stream if there is none. If a connection refuses, it tries the next one.
func (s *streamClient) open() (err error) {
	if s.stream != nil {
		return nil
	}
	for range s.conns {
		var stream grpc.ClientStream
		stream, err = s.conns[s.at].NewStream(s.life, checkStream, "/stint.v1.LimitService/CheckStream")
		if err == nil {
			s.stream = stream
			return nil
		}
		if !notDialed(err) {
			return err
		}
		s.at = (s.at + 1) % len(s.conns)
	}
	return err
}

// close ends the stream; the shared connection belongs to the run.
func (s *streamClient) close() {
	if s.end != nil {
		s.end()
		s.end, s.stream = nil, nil
	}
}
