package testcluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"strconv"
)

// The ports of every node, and the port that marks a subnet as taken.
const (
	apiPort    = 7400
	peerPort   = 7401
	gossipPort = 7402
	redisPort  = 7403
	claimPort  = 7499
)

// nodesMax is the number of nodes that a subnet has addresses for.
const nodesMax = 90

// subnet is 127.77.k.0/24. An open port holds it, so that another test cluster on this machine takes another subnet.
type subnet struct {
	number int
	claim  net.Listener
}

func claimSubnet() (*subnet, error) {
	if runtime.GOOS != "linux" {
		return nil, errors.New("testcluster: only Linux has all of 127.0.0.0/8 on its loopback")
	}
	first := rand.IntN(255)
	var last error
	for i := range 255 {
		s := &subnet{number: (first + i) % 255}
		if last = s.take(); last == nil {
			return s, nil
		}
	}
	return nil, fmt.Errorf("testcluster: all of 127.77.0.0/16 is taken: %w", last)
}

// take claims the subnet. A process that listens at the port of a node, or at all addresses, would answer in place of
// the node.
func (s *subnet) take() (err error) {
	if s.claim, err = net.Listen("tcp", hostPort(s.ip(254), claimPort)); err != nil {
		return err
	}
	node, err := net.Listen("tcp", hostPort(s.ip(1), apiPort))
	if err != nil {
		s.claim.Close()
		return err
	}
	return node.Close()
}

func (s *subnet) ip(host int) string { return fmt.Sprintf("127.77.%d.%d", s.number, host) }

func (s *subnet) release() { s.claim.Close() }

func hostPort(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }
