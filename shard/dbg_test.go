package shard

import "os"

var dbg = os.Getenv("DBG") != ""
