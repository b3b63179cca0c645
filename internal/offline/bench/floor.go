package bench

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

// Floor is the best that a machine allows: no exact answer of one node can come sooner than one fdatasync, and no answer of a
// majority sooner than a round trip and an fdatasync.
type Floor struct {
	SyncAppendMicros       Latency `json:"syncAppendMicros"`       // write 4 KiB at the end of a file, fdatasync
	SyncPreallocatedMicros Latency `json:"syncPreallocatedMicros"` // write 4 KiB into preallocated space, fdatasync
	RoundTripMicros        Latency `json:"roundTripMicros"`        // 64 bytes there and back over loopback TCP
}

const (
	floorBlock    = 4 << 10
	floorMessage  = 64
	floorBlockMax = 16 << 10 // preallocated blocks: 64 MiB
)

// MeasureFloor measures each part for the duration each, with one caller. It leaves no file in the directory.
func MeasureFloor(ctx context.Context, directory string, each time.Duration) (f Floor, err error) {
	if f.SyncAppendMicros, err = measureSync(ctx, directory, each, false); err != nil {
		return f, err
	}
	if f.SyncPreallocatedMicros, err = measureSync(ctx, directory, each, true); err != nil {
		return f, err
	}
	f.RoundTripMicros, err = measureRoundTrip(ctx, each)
	return f, err
}

func measureSync(ctx context.Context, directory string, each time.Duration, preallocated bool) (Latency, error) {
	file, err := os.CreateTemp(directory, "stint-floor-")
	if err != nil {
		return Latency{}, err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	block := make([]byte, floorBlock)
	if preallocated {
		for range floorBlockMax { // written zeros, so that later writes change no metadata
			if _, err := file.Write(block); err != nil {
				return Latency{}, err
			}
		}
		if err := file.Sync(); err != nil {
			return Latency{}, err
		}
	}
	at := int64(0)
	return repeat(ctx, each, func() error {
		block[at%floorBlock]++
		if _, err := file.WriteAt(block, at*floorBlock%(floorBlock*floorBlockMax)); err != nil {
			return err
		}
		at++
		return syncData(file)
	})
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
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		echoOnce(listener)
	}()
	defer func() { <-ended }()
	defer listener.Close()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		return Latency{}, err
	}
	defer conn.Close()
	message := make([]byte, floorMessage)
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

// echoOnce serves one echo connection until it ends.
func echoOnce(listener net.Listener) {
	conn, err := listener.Accept()
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = io.Copy(struct{ io.Writer }{conn}, struct{ io.Reader }{conn})
}
