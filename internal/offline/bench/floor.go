package bench

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

// Floor is the best that a machine allows: no exact answer of one node can come sooner than one fdatasync, and no
// answer of a majority sooner than a round trip and an fdatasync.
type Floor struct {
	SyncAppendMicros       Latency `json:"syncAppendMicros"`       // write 4 KiB at the end of a file, fdatasync
	SyncPreallocatedMicros Latency `json:"syncPreallocatedMicros"` // write 4 KiB into preallocated space, fdatasync
	RoundTripMicros        Latency `json:"roundTripMicros"`        // 64 bytes there and back over loopback TCP
}

const (
	floorBlock    = 4 << 10
	floorBlockMax = 16 << 10 // blocks of the file: 64 MiB
)

// MeasureFloor measures each part for the duration each, with one caller. It leaves no file in the directory.
func MeasureFloor(ctx context.Context, directory string, each time.Duration) (f Floor, err error) {
	file, err := os.CreateTemp(directory, "stint-floor-")
	if err != nil {
		return f, err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	block, at := make([]byte, floorBlock), int64(0)
	write := func() error {
		block[at%floorBlock]++
		_, err := file.WriteAt(block, at%floorBlockMax*floorBlock)
		at++
		return err
	}
	writeAndSync := func() error {
		if err := write(); err != nil {
			return err
		}
		return syncData(file)
	}
	if f.SyncAppendMicros, err = repeat(ctx, each, writeAndSync); err != nil {
		return f, err
	}
	for range floorBlockMax { // every block is written once, so that later writes change no metadata
		if err := write(); err != nil {
			return f, err
		}
	}
	if err := file.Sync(); err != nil {
		return f, err
	}
	if f.SyncPreallocatedMicros, err = repeat(ctx, each, writeAndSync); err != nil {
		return f, err
	}
	f.RoundTripMicros, err = measureRoundTrip(ctx, each)
	return f, err
}

// repeat calls until the time is over, and returns the distribution of the calls' durations.
func repeat(ctx context.Context, each time.Duration, call func() error) (Latency, error) {
	took := newHistogram()
	for end := time.Now().Add(each); time.Now().Before(end) && ctx.Err() == nil; {
		began := time.Now()
		if err := call(); err != nil {
			return Latency{}, err
		}
		_ = took.RecordValue(time.Since(began).Microseconds())
	}
	return latencyOf(took), ctx.Err()
}

// measureRoundTrip measures round trips to an echo server on loopback.
func measureRoundTrip(ctx context.Context, each time.Duration) (Latency, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return Latency{}, err
	}
	defer listener.Close()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		return Latency{}, err
	}
	defer conn.Close()             // twice is no harm
	peer, err := listener.Accept() // the kernel has completed the connection
	if err != nil {
		return Latency{}, err
	}
	defer peer.Close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(struct{ io.Writer }{peer}, struct{ io.Reader }{peer}) // copied here, not spliced by the kernel
	}()
	defer func() { <-ended }()
	defer conn.Close() // ends the echo
	message := make([]byte, 64)
	return repeat(ctx, each, func() error {
		if _, err := conn.Write(message); err != nil {
			return err
		}
		if _, err := io.ReadFull(conn, message); err != nil {
			return fmt.Errorf("the echo on loopback: %w", err)
		}
		return nil
	})
}
