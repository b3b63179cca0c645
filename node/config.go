package node

import (
	"log/slog"
	"time"
)

// Config is everything a node needs to know. Zero values are documented; Start fills the defaults in.
type Config struct {
	DataDir         string        // must be one node's own; required
	NodeID          string        // "": the one kept in the data dir, or a new one
	APIAddr         string        // "": 127.0.0.1:7400
	PeerAddr        string        // "": 127.0.0.1:7401
	GossipAddr      string        // "": 127.0.0.1:7402
	Join            []string      // gossip seeds
	BootstrapExpect int           // 0: 1
	Shards          int           // 0: 4; read when the data dir is created
	Replicas        int           // 0: 3; read when the cluster is created
	PoliciesFile    string        // "": no policies but those of Dev
	RequestTimeout  time.Duration // 0: 5 s; for calls that bring no deadline
	Advertise       string        // what others dial; "": the listen address
	Zone            string
	Dev             bool // the policies of DESIGN.md section 7 when there is no PoliciesFile
	AcceptTime      bool // lets shard time step more than 24 h past the last stamp
	Logger          *slog.Logger
}
