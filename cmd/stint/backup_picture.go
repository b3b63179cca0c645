package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"connectrpc.com/connect"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
)

// pictureSilent bounds the time from one chunk to the next. The writing of the former counts, too.
const pictureSilent = 30 * time.Second

// sentPicture is a snapshot from a node. Its first chunk has arrived.
type sentPicture struct {
	stream *connect.ServerStreamForClient[stintv1.BackupChunk]
	cancel context.CancelFunc // ends the stream
	watch  *time.Timer        // calls cancel after pictureSilent, unless copyTo resets it
}

// openPicture asks a node for a snapshot of the shard with this name, and returns when its first chunk is here. The
// caller closes the picture.
func openPicture(ctx context.Context, client *http.Client, addr, name string) (*sentPicture, error) {
	ctx, cancel := context.WithCancel(ctx)
	p := &sentPicture{cancel: cancel, watch: time.AfterFunc(pictureSilent, cancel)}
	stream, err := stintv1connect.NewClusterServiceClient(client, addr).Backup(ctx,
		connect.NewRequest(&stintv1.BackupRequest{Shard: name}))
	if err != nil {
		p.close()
		return nil, err
	}
	p.stream = stream
	if !stream.Receive() {
		err := cmp.Or(stream.Err(), errNoPicture)
		p.close()
		return nil, err
	}
	return p, nil
}

var errNoPicture = errors.New("the node sent nothing")

// copyTo writes all chunks, beginning with the one that openPicture has received. It can be called once.
func (p *sentPicture) copyTo(out io.Writer) error {
	for more := true; more; more = p.stream.Receive() {
		p.watch.Reset(pictureSilent)
		if _, err := out.Write(p.stream.Msg().Data); err != nil {
			return err
		}
	}
	return p.stream.Err()
}

func (p *sentPicture) close() {
	p.watch.Stop()
	p.cancel()
	if p.stream != nil {
		p.stream.Close()
	}
}
