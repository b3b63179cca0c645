package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"time"
)

// serviceManager receives the state of the process: systemd, for a unit of Type=notify, or a compatible manager
// (sd_notify(3)). Nothing depends on a message: one that cannot be sent is lost.
type serviceManager struct{ io.Writer } // nil if there is none

// dialServiceManager finds the manager by NOTIFY_SOCKET: a path, or @ and a name in the abstract namespace.
func dialServiceManager(logger *slog.Logger) serviceManager {
	name := os.Getenv("NOTIFY_SOCKET")
	if name == "" {
		return serviceManager{}
	}
	conn, err := net.Dial("unixgram", name)
	if err != nil {
		logger.Warn("the service manager will not hear that the node is ready: NOTIFY_SOCKET cannot be reached",
			"error", err)
		return serviceManager{}
	}
	return serviceManager{conn}
}

// A start asks for this much time, and asks again long before it has passed: every second, so that the status is the
// reason of now.
const extendBy, extendEvery = 30 * time.Second, time.Second

// starting asks for more time until the returned function is called, and reports what the start waits for. A start
// takes as long as a log and other nodes take: a manager that ended the process would only make it begin again.
func (m serviceManager) starting(waitsFor func() error) (ended func()) {
	if m.Writer == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var asking sync.WaitGroup
	asking.Go(func() {
		again := time.NewTicker(extendEvery)
		defer again.Stop()
		for {
			status := "starting"
			if err := waitsFor(); err != nil {
				status += ": " + err.Error()
			}
			m.tell(fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", extendBy.Microseconds()), status)
			select {
			case <-again.C:
			case <-ctx.Done():
				return
			}
		}
	})
	return func() { cancel(); asking.Wait() }
}

func (m serviceManager) ready() { m.tell("READY=1", "ready") }

func (m serviceManager) stopping() { m.tell("STOPPING=1", "stopping") }

// tell sends a state, and a status in one line for display.
func (m serviceManager) tell(state, status string) {
	if m.Writer != nil {
		fmt.Fprintf(m.Writer, "%s\nSTATUS=%s\n", state, strings.ReplaceAll(status, "\n", " "))
	}
}
