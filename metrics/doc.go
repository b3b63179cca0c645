// Package metrics is the one door to Prometheus. A Metrics has a method for each thing that happens in a node; the
// packages where it happens declare the few methods they call as an interface of their own and never see Prometheus.
//
// What it owns: the names, labels and buckets of every series, and the registry behind /metrics. What it never knows:
// keys and namespaces. A key is an e-mail address or a phone number, and there is no end of them (SEMANTICS R22).
//
//	stint_decisions_total{policy,outcome}             decisions, one for each entry; outcome: allowed, denied,
//	                                                  locked_out (denied, as the key is blocked), shadow_denied (allowed, as
//	                                                  the limits in question are shadowed), counted (MODE_COUNT), reserved;
//	                                                  of a settlement committed, cancelled, extended, success or failed;
//	                                                  denied_cached (denied, as another request was a moment ago);
//	                                                  replayed (the answer to an id that was counted before). The policy of
//	                                                  limits that came with a request is "inline"
//	stint_request_duration_seconds{procedure,code}    calls, from the message read to the answer ready; code: ok, or
//	                                                  the name of the RPC code
//	stint_batch_requests{shard}                       requests decided together
//	stint_batch_effects{shard}                        keys they changed: 0 when all were denied
//	stint_batch_bytes{shard}                          size of the log entry they became
//	stint_commit_duration_seconds{shard}              from the proposal of an entry to its installation
//	stint_log_append_duration_seconds                 one write of the log to the disk, fsync included
//	stint_log_append_entries                          entries in that write
//	stint_epoch{shard}                                Raft index with which the shard's owner opened for business; 0: this
//	                                                  node does not decide for the shard
//	stint_dropped_entries_total{shard,reason}         entries of a deposed owner that were passed over; reason: epoch,
//	                                                  term, seq
//	stint_keys{shard}                                 records kept
//	stint_time_frozen_total{shard}                    times it was seen, once in 10 s at most, that the owner's clock is
//	                                                  behind and shard time stands still
//	stint_memory_full_total{shard}                    times it was seen, once in 10 s at most, that requests were refused
//	                                                  because the shard holds as much as it may
//	stint_hop_requests_total                          requests that this node forwarded to the node that owns them
//	stint_hop_frames_total                            frames in which they travelled
//	stint_denials_kept                                denials that this node may repeat without asking again
//	stint_redis_commands_total{command,code}          commands of the Redis protocol; code: ok, or the first word of the error
//	stint_redis_round_duration_seconds                commands of one connection that were decided together, from read to
//	                                                  replied
//	stint_redis_connections                           connections that speak it
//	go_*, process_*                                   the Go runtime and the process
//
// Durations are seconds. Durations and sizes are histograms with classic buckets, and native ones for a scraper that
// asks for them.
//
// Everything may be called concurrently. A method looks its series up without a lock; the first use of a label makes
// it. Labels must come from bounded sets: policies of the configuration, shards, procedures, codes.
package metrics
