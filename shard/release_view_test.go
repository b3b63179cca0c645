package shard

import "iter"

// All, Scan and Shares complete releaseStory as a View. Release 0.1.0, in whose tree its own file is compiled too (make upgrade), knows
// none of them.
func (w *releaseStory) All() iter.Seq2[[]byte, Record] { return w.s.All() }

func (w *releaseStory) Scan(from uint64) iter.Seq2[[]byte, Record] { return w.s.Scan(from) }

func (w *releaseStory) Shares(namespace, policy string) Shares { return w.s.Shares(namespace, policy) }
