// Package metrics is the only package that knows Prometheus. A Metrics has a method for each kind of event in a node.
// The packages with the events declare the few methods that they call as an interface of their own.
//
// It owns the names, labels and buckets of every series, and the registry behind /metrics. It never knows
// keys: one may be an e-mail address or a phone number, and their number is unbounded (R22). Namespaces are bounded.
//
//	stint_decisions_total{policy,outcome}             decisions, one for each entry; outcome: allowed, denied,
//	                                                  challenged (denied: only by limits that ask for a challenge),
//	                                                  locked_out (denied: the key is blocked), shadow_denied (allowed: the
//	                                                  limits that would deny are in shadow), counted (MODE_COUNT), reserved;
//	                                                  of a settlement committed, cancelled, extended, success or failed;
//	                                                  denied_cached (denied by the repeated answer to an earlier request);
//	                                                  allowed_leased (admitted by a node from a lease);
//	                                                  replayed (the answer to an id that was counted before). The policy of
//	                                                  limits that came with a request is "inline"
//	stint_denials_total{namespace,policy,limit}       denials by each limit that denied, or the block of the key: "lockout" or
//	                                                  "block"; also repeated ones (deny_cache), not those of the Redis port.
//	                                                  Beyond 200 namespaces, 200 limits or 2,000 series: "other"
//	stint_request_duration_seconds{procedure,code}    calls, from the read message to the complete answer; code: ok,
//	                                                  or the name of the RPC code
//	stint_batch_requests{shard}                       requests decided together
//	stint_batch_effects{shard}                        keys that they changed; 0 if all were denied
//	stint_batch_bytes{shard}                          size of their log entry
//	stint_commit_duration_seconds{shard}              from the proposal of an entry to its installation
//	stint_log_append_duration_seconds                 one write of the log to the disk, with its fsync
//	stint_log_append_entries                          entries in that write
//	stint_epoch{shard}                                Raft index with which the shard's owner opened for business; 0: this
//	                                                  node does not decide for the shard
//	stint_dropped_entries_total{shard,reason}         skipped entries of a deposed owner; reason: epoch, term, seq
//	stint_keys{shard}                                 records kept
//	stint_record_bytes{shard}                         memory of the records
//	stint_record_bytes_limit                          memory that those of all shards may take; from seven eighths on new
//	                                                  keys are refused
//	stint_time_frozen_total{shard}                    observations, at most one in 10 s, that the owner's clock is behind
//	                                                  and shard time stands still
//	stint_policy_keys{shard,policy}                   keys of a policy with max_keys, in the namespace that has most
//	stint_keys_refused_total{shard}                   observations, at most one in 10 s, that new keys were refused for
//	                                                  max_keys, or because one policy or namespace takes most of a shard
//	stint_memory_full_total{shard}                    observations, at most one in 10 s, that requests were refused
//	                                                  because the shard holds as much as it may
//	stint_legs_open{shard}                            parts of operations on several shards that the shard has charged
//	                                                  and not ended
//	stint_hop_requests_total                          requests that this node forwarded to the node that owns them
//	stint_hop_frames_total                            frames of these requests
//	stint_shards_stopped                              shards whose copy here decides nothing, because its records cannot
//	                                                  be trusted
//	stint_ready                                       1: the node can serve or forward every shard, as /readyz says
//	stint_shards_unowned                              shards without an owner that this node has heard of
//	stint_shards_wanted                               shards that share all slots, or are to, as this node knows; so are the
//	                                                  next three
//	stint_slots{shard}                                slots of a shard; 0: it was asked for once, and has no keys now
//	stint_slots_to_move                               slots to move until the wanted shards have equally many
//	stint_slots_moving                                those of them that are moving
//	stint_slots_moved_total                           moves of slots that this node has brought to their end: there, or back
//	stint_disk_free_bytes                             what the disk has left for the data directory; absent: not known
//	stint_disk_low                                    1: requests are refused for lack of room on the disk
//	stint_canary_timestamp_seconds{shard}             when the shard last answered this node's canary, which counts a key of
//	                                                  its own on each shard, a minute or so apart; absent where that has
//	                                                  no slots
//	stint_canary_violations_total{shard,kind}         answers to the canary that cannot be; kind: lost (a count that was
//	                                                  answered is missing), doubled (more than was asked for)
//	stint_replicas_convicted                          replicas here whose records were found wrong within the last day
//	stint_sums_agreed_timestamp_seconds{shard}        when the replica here last had the same new sum as a majority of its
//	                                                  shard's; absent in a cluster of one
//	stint_disk_distrusted_timestamp_seconds           when a process of this node last ended itself with status 75, because its
//	                                                  disk could not be trusted; absent: none has since the data directory was
//	                                                  made
//	stint_last_backup_timestamp_seconds               when the newest backup was begun; absent: none is known here
//	stint_certificate_expiry_timestamp_seconds{port}  when the certificate expires; port: api, peer; absent: there is none
//	stint_clock_ahead_seconds                         how far the machine's clock is ahead of the median of the nodes' clocks;
//	                                                  absent: not measured
//	stint_trace_spans_exported_total                  spans that the collector of traces has taken
//	stint_trace_spans_dropped_total{reason}           spans that did not reach it; reason: queue (it is full), collector (it
//	                                                  refuses, or is not there), stop (there was no time left)
//	stint_top_bytes                                   memory of the keys that stand out
//	stint_denials_kept                                denials that this node may repeat without asking again
//	stint_leases_held                                 leases from which this node answers without asking
//	stint_edges                                       edges that are connected to this node
//	stint_redis_commands_total{command,code}          commands of the Redis protocol; code: ok, or the first word of the error
//	stint_redis_round_duration_seconds                rounds: commands of one connection that were decided together,
//	                                                  from parsing to the written replies
//	stint_redis_connections                           connections that speak the Redis protocol
//	stint_connections{port}                           connections of a client port: api (with gRPC's), redis
//	stint_connections_refused_total{port,why}         refused connections; why: full, address (the address holds a quarter
//	                                                  of the port), accept (the machine had no descriptor), unproven
//	                                                  (clients that have shown no token hold an eighth)
//	stint_connections_cut_total{port}                 idle connections that were closed to make room for others
//	stint_decision_log_dropped_total{reason}          lines of the decision log that were lost; reason: full (the disk is
//	                                                  slower than the decisions), disk (it failed)
//	stint_events_delivered_total{sink}                events that a sink has taken
//	stint_event_tries_failed_total{sink}              tries to send an event that it has not taken
//	stint_sink_failing{sink}                          1: it did not take what this node has sent it last; absent: it did
//	stint_events_waiting{shard}                       events that wait for sinks; 0 where the shard is not owned
//	stint_events_dead{shard}                          dead letters that are kept; likewise
//	stint_events_lost_total{shard}                    events that were dropped before all of their sinks had them: the list of
//	                                                  dead letters was full; told by each node with a copy of the shard
//	stint_bills_skipped_total{sink}                   bills that a sink cannot be sent, and that a person enters; the log says
//	                                                  which and why
//	stint_spikes_total{policy}                        keys that were denied far more often than before, at most once in 10
//	                                                  minutes each
//	go_*, process_*                                   the Go runtime and the process
//
// Durations are seconds. Durations and sizes are histograms with classic buckets, and with native ones for a scraper
// that asks for them. A scraper that asks for OpenMetrics gets exemplars too: the buckets of
// stint_request_duration_seconds and stint_redis_round_duration_seconds have the trace_id of a traced call.
//
// All methods may be called concurrently. A method finds its series under a read lock; the first use of a label makes
// the series. Labels must come from bounded sets: policies of the configuration, shards, procedures, codes.
//
// Ids such as R22 name rules of docs/rules.md.
package metrics
