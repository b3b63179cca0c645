package raftfsm

import (
	"errors"
	"os"
	"time"
)

// A snapshot is written to the disk that every answer waits for. Left to the kernel its bytes pile up until the fsync at
// the end, and the log's fsyncs wait behind them: on a file system with a journal for all of them. So a snapshot's bytes are
// sent to the disk every paceBytes, and between two pieces its writer rests for as long as the last one took: half of the
// disk's time, and of one processor's, stays for the requests. It is only the pace: what makes a snapshot durable is raft's
// fsync at its end.
//
// 20 MiB written in this way beside fdatasyncs of 400 bytes, on a busy machine, five or six rounds in turns, three times: p99.9 of
// the fdatasync was 198, 20 and 55 ms with an fsync of each MiB, 45, 11 and 25 ms with writeBack of each. Pieces of 256 KiB
// were no better: 350, 52 and 50 ms, and 120, 8 and 44 ms.
const (
	paceBytes    = 1 << 20
	paceRestMost = 100 * time.Millisecond
)

// pacer belongs to the goroutine that writes one snapshot.
type pacer struct {
	file     *os.File // what the snapshot is written to, by a handle of ours
	hurry    func() bool
	unsynced int
	began    time.Time // of the piece
}

// newPacer opens the file that a snapshot is being written to. hurry says that there is nothing any more to rest for.
func newPacer(path string, hurry func() bool) (*pacer, error) {
	file, err := os.Open(path)
	return &pacer{file: file, hurry: hurry, began: time.Now()}, err
}

// wrote takes notice of n bytes more.
func (p *pacer) wrote(n int) error {
	if p.unsynced += n; p.unsynced < paceBytes {
		return nil
	}
	p.unsynced = 0
	if err := writeBack(p.file); err != nil {
		return err
	}
	if !p.hurry() {
		time.Sleep(min(time.Since(p.began), paceRestMost))
	}
	p.began = time.Now()
	return nil
}

// close may be called again.
func (p *pacer) close() error {
	if err := p.file.Close(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}
