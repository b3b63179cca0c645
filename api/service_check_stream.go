package api

import (
	"context"
	"errors"
	"io"
	"math"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/shard"
)

// batchesAtOnce is the number of batches of one stream that are decided at once: enough to read the next batches and
// write the last ones while a commit is under way. HTTP/2's flow control holds back a client that sends more.
const batchesAtOnce = 8

// checkStreamService answers LimitService.CheckStream.
type checkStreamService struct {
	limits   limitService
	gate     *gatekeeper
	draining context.Context // ends all streams, as in API
	readers  *sync.WaitGroup // likewise
}

type batchCall = call[stintv1.CheckBatchRequest, *stintv1.CheckBatchRequest]

// checkStream is one stream on either port. receive and send may be called concurrently. receive returns io.EOF after
// the client's last message, and an error after the handler of the stream has returned.
type checkStream struct {
	receive func() (*batchCall, error)
	send    func(*stintv1.CheckBatchResponse) error
}

func (s checkStreamService) register(d *registry) {
	procedure := stintv1connect.LimitServiceCheckStreamProcedure
	d.handle(auth.Check, procedure, connect.NewBidiStreamHandler(procedure, s.serveConnect, codecs, gzipped,
		connect.WithReadMaxBytes(bodyBytesMax)))
	d.serveGRPC(procedure, grpc.StreamDesc{Handler: s.serveGRPC, ClientStreams: true, ServerStreams: true})
}

func (s checkStreamService) serveConnect(
	ctx context.Context, stream *connect.BidiStream[batchCall, stintv1.CheckBatchResponse],
) error {
	x := exchangeOf(ctx)
	x.request.left = math.MaxInt - 1 // each message has the bound of a body
	if err := x.beginStream(); err != nil {
		return streamError(err)
	}
	return streamError(s.serve(ctx, checkStream{
		receive: func() (*batchCall, error) {
			c, err := stream.Receive()
			if connect.CodeOf(err) == connect.CodeResourceExhausted {
				err = shard.Invalidf("message", "%s", errTooLarge)
			}
			return c, err
		},
		send: func(m *stintv1.CheckBatchResponse) error {
			return x.sendOne(func() error { return stream.Send(m) })
		},
	}))
}

func (s checkStreamService) serveGRPC(_ any, stream grpc.ServerStream) error {
	return streamErrorGRPC(stream, s.serve(stream.Context(), checkStream{
		receive: func() (*batchCall, error) {
			c := &batchCall{}
			return c, stream.RecvMsg(c)
		},
		send: func(m *stintv1.CheckBatchResponse) error { return stream.SendMsg(m) },
	}))
}

// errDraining ends a stream. Batches without an answer were not counted: all batches that were read are answered first.
var errDraining = &shard.Error{Code: shard.Draining,
	Message: "this node stops; batches that have no answer were not counted; send them on a new stream"}

// serve answers a stream until the client has sent its last message, a batch is wrong, or the node drains. In each case
// the batches under way are answered first, and nothing after them is counted.
func (s checkStreamService) serve(ctx context.Context, l checkStream) error {
	ctx, cancel := context.WithCancel(ctx)
	var deciding sync.WaitGroup
	defer deciding.Wait()
	defer cancel()
	ended := make(chan struct{})
	defer close(ended)
	incoming := s.read(ended, l)
	draining := s.draining.Done()
	var begun []*streamedBatch
	var end error
	defer func() {
		for _, b := range begun {
			s.gate.admission.give(b.weight)
		}
	}()
	for {
		next, first := incoming, (chan *stintv1.CheckBatchResponse)(nil)
		if len(begun) > 0 {
			first = begun[0].answer
		}
		switch {
		case end != nil && first == nil && errors.Is(end, io.EOF):
			return nil
		case end != nil && first == nil:
			return end
		case end != nil:
			next, draining = nil, nil
		case s.draining.Err() != nil: // checked here: select could choose a batch that has arrived
			end = errDraining
			continue
		case len(begun) == batchesAtOnce:
			next = nil
		}
		select {
		case r := <-next:
			var b *streamedBatch
			if b, end = s.begin(ctx, r, &deciding); end == nil {
				begun = append(begun, b)
			}
		case answer := <-first:
			err := l.send(answer)
			s.gate.admission.give(begun[0].weight)
			if begun = begun[1:]; err != nil {
				return err
			}
		case <-draining:
			end = errDraining
		}
	}
}

// received is a message of a stream, or the reason why there are no more.
type received struct {
	call *batchCall
	err  error
}

// read passes on the messages of a stream until ended is closed. Its goroutine ends shortly after the stream's handler:
// a server that closes waits for readers. It also passes on that the client has gone, since the handler waits for that.
func (s checkStreamService) read(ended <-chan struct{}, l checkStream) <-chan received {
	incoming := make(chan received)
	s.readers.Go(func() {
		for {
			c, err := l.receive()
			select {
			case incoming <- received{c, err}:
			case <-ended:
				return
			}
			if err != nil {
				return
			}
		}
	})
	return incoming
}

// streamedBatch is a batch under way, which is a call of its own: it is the context that carries its exchange.
type streamedBatch struct {
	context.Context // of the stream
	exchange
	began  time.Time
	answer chan *stintv1.CheckBatchResponse // of capacity 1: the deciding goroutine never waits
	weight int64                            // room taken, which serve gives back; exchange.taken stays 0
}

// Value implements context.Context.
func (b *streamedBatch) Value(key any) any {
	if key == (exchangeKey{}) {
		return &b.exchange
	}
	return b.Context.Value(key)
}

// begin starts the decision of a batch. On an error (a wrong batch, or no room) it was not begun.
func (s checkStreamService) begin(ctx context.Context, r received, deciding *sync.WaitGroup) (*streamedBatch, error) {
	if r.err != nil {
		return nil, r.err
	}
	stream := exchangeOf(ctx)
	b := &streamedBatch{weight: weigh(&r.call.message), began: time.Now()}
	b.answer = make(chan *stintv1.CheckBatchResponse, 1)
	b.exchange = exchange{header: stream.header, remote: stream.remote, port: stream.port, admission: stream.admission,
		message: &r.call.message}
	b.Context = ctx
	err := r.call.problem()
	if err == nil { // the token may have been revoked since the stream began
		//mutant:stream-asked-once
		if refusal := s.gate.stillAdmits(stream, stintv1connect.LimitServiceCheckStreamProcedure); refusal != nil {
			err = refusal
		}
	}
	b.caller = stream.caller
	if err == nil {
		err = batchProblem(&r.call.message)
	}
	if err == nil && !s.gate.admission.take(b.weight) {
		err = errNoRoom
	}
	if err != nil {
		s.ended(b, err)
		return nil, err
	}
	b.trace = stream.trace.Batch()
	deciding.Go(func() {
		ctx, cancel := context.WithTimeout(b, s.gate.timeout)
		defer cancel()
		answer := s.limits.decideBatch(ctx, callerIn(b), &r.call.message)
		s.ended(b, nil)
		b.answer <- answer
	})
	return b, nil
}

// ended reports the end of a batch.
func (s checkStreamService) ended(b *streamedBatch, err error) {
	s.gate.coded(b, stintv1connect.LimitServiceCheckStreamProcedure, b.began, err)
}
