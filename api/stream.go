package api

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/shard"
)

// batchesAtOnce is how many batches of one stream are decided at a time: enough that the next ones are read, and the
// last ones written, while a commit is under way. A client that sends more waits, by HTTP/2's flow control.
const batchesAtOnce = 8

// streams answers LimitService.CheckStream.
type streams struct {
	limits   limitService
	edge     edge
	room     *room
	draining <-chan struct{}
	readers  *sync.WaitGroup
}

type batchCall = call[stintv1.CheckBatchRequest, *stintv1.CheckBatchRequest]

// link is one stream of either door. Receive and Send may be called at the same time. Receive ends when the handler of
// the stream has returned, and gives io.EOF when the client has sent its last message.
type link struct {
	receive func() (*batchCall, error)
	send    func(*stintv1.CheckBatchResponse) error
}

func (s streams) register(d *doors) {
	procedure := stintv1connect.LimitServiceCheckStreamProcedure
	d.mux.Handle(procedure, connect.NewBidiStreamHandler(procedure, s.serveConnect, codecs, uncompressed,
		connect.WithReadMaxBytes(bodyBytesMax)))
	d.serveGRPC(procedure, grpc.StreamDesc{Handler: s.serveGRPC, ClientStreams: true, ServerStreams: true})
}

func (s streams) serveConnect(
	ctx context.Context, stream *connect.BidiStream[batchCall, stintv1.CheckBatchResponse],
) error {
	x := exchangeOf(ctx)
	x.request.left = math.MaxInt - 1 // each message has the bound of a body
	control := http.NewResponseController(x.answer.ResponseWriter)
	if err := control.SetReadDeadline(time.Time{}); err != nil { // that of one request
		return codedError(err)
	}
	err := s.serve(ctx, link{
		receive: func() (*batchCall, error) {
			c, err := stream.Receive()
			if connect.CodeOf(err) == connect.CodeResourceExhausted {
				err = shard.Invalidf("message", "%s", errTooLarge)
			}
			return c, err
		},
		send: func(m *stintv1.CheckBatchResponse) error {
			x.answer.begun = false // each answer has its time to be read, and there may be a long time between two
			if err := stream.Send(m); err != nil {
				return err
			}
			return control.SetWriteDeadline(time.Time{})
		},
	})
	if ours(err) {
		return codedError(err)
	}
	return err
}

// ours tells an error that has no code yet from one of the libraries, which is about a client that has gone, or whose bytes
// are no message.
func ours(err error) bool {
	var failure *shard.Error
	return errors.As(err, &failure) || errors.Is(err, context.DeadlineExceeded)
}

func (s streams) serveGRPC(_ any, stream grpc.ServerStream) error {
	err := s.serve(stream.Context(), link{
		receive: func() (*batchCall, error) {
			c := &batchCall{}
			return c, stream.RecvMsg(c)
		},
		send: func(m *stintv1.CheckBatchResponse) error { return stream.SendMsg(m) },
	})
	if ours(err) {
		return grpcError(stream, codedError(err))
	}
	return err
}

// errDraining ends a stream. What has no answer was not counted: all that was read is answered first.
var errDraining = &shard.Error{Code: shard.Draining,
	Message: "this node stops; batches that have no answer were not counted; send them on a new stream"}

// serve answers a stream until its client has sent the last message, a batch is wrong, or the node drains. Whatever ends
// it, the batches that were begun are answered first, and nothing after them was counted.
func (s streams) serve(ctx context.Context, l link) error {
	ctx, cancel := context.WithCancel(ctx)
	var deciding sync.WaitGroup
	defer deciding.Wait()
	defer cancel()
	incoming := s.read(ctx, l)
	draining := s.draining
	var begun []*streamedBatch
	var end error
	defer func() {
		for _, b := range begun {
			s.room.give(b.weight)
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
			s.room.give(begun[0].weight)
			if begun = begun[1:]; err != nil {
				return err
			}
		case <-draining:
			end = errDraining
		}
	}
}

// received is a message of a stream, or why there are no more.
type received struct {
	call *batchCall
	err  error
}

// read passes on what comes. Its goroutine ends with the handler of the stream, a moment later: who closes the server
// waits for readers.
func (s streams) read(ctx context.Context, l link) <-chan received {
	incoming := make(chan received)
	s.readers.Go(func() {
		for {
			c, err := l.receive()
			select {
			case incoming <- received{c, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	})
	return incoming
}

// streamedBatch is a batch that is being decided.
type streamedBatch struct {
	answer chan *stintv1.CheckBatchResponse // of capacity 1: whoever decides waits for nobody
	weight int64                            // of room
}

// begin has a batch decided. An error says that it is none, and was not begun.
func (s streams) begin(ctx context.Context, r received, deciding *sync.WaitGroup) (*streamedBatch, error) {
	if r.err != nil {
		return nil, r.err
	}
	began := time.Now()
	b := &streamedBatch{answer: make(chan *stintv1.CheckBatchResponse, 1), weight: weigh(&r.call.message)}
	err := r.call.problem()
	if err == nil {
		err = batchProblem(&r.call.message)
	}
	if err == nil && !s.room.take(b.weight) {
		err = errNoRoom
	}
	if err != nil {
		s.edge.told(stintv1connect.LimitServiceCheckStreamProcedure, began, err)
		return nil, err
	}
	deciding.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, s.edge.timeout)
		defer cancel()
		b.answer <- s.limits.decideBatch(ctx, &r.call.message)
		s.edge.told(stintv1connect.LimitServiceCheckStreamProcedure, began, nil)
	})
	return b, nil
}
