package recovery

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/internal/offline/backup"
	"github.com/stint-io/stint/raftfsm"
	"github.com/stint-io/stint/shard"
)

// remnant is what is left of one node: its data directory, or the part that was made of it on the node's machine.
type remnant struct {
	about remnantAbout
	from  string

	dir  *raftfsm.Remains // nil: a part
	file *os.File         // of the part, which reads from it until close; nil: a directory
	part *backup.Part     // nil: a directory
}

// remnantAbout describes a remnant. A part has it as JSON.
type remnantAbout struct {
	Cluster, Node string
	Release       string // that read the directory
	Level         shard.Level
	Read          int64  // when the directory was read, in Unix microseconds
	TableVersion  uint64 // of the newest table that the node knew; 0: none
	Table         []byte
	Replicas      []Replica
}

// openRemnant reads a data directory, or a part.
func openRemnant(from string, now time.Time) (*remnant, error) {
	info, err := os.Stat(from)
	if err != nil {
		return nil, err
	}
	r := &remnant{from: from}
	if info.IsDir() {
		err = r.readDirectory(now)
	} else {
		err = r.openPart(info.Size())
	}
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

func (r *remnant) readDirectory(now time.Time) (err error) {
	if r.dir, err = raftfsm.OpenRemains(r.from); err != nil {
		return err
	}
	if err := raftfsm.RefuseTestClock(r.from, r.dir.ReadRecord); err != nil {
		return err
	}
	identity := r.dir.Identity()
	r.about = remnantAbout{Cluster: identity.Cluster, Node: identity.Node, Level: r.dir.Level(), Read: now.UnixMicro()}
	var kept shard.Document
	if found, err := r.dir.ReadRecord(placement.TableDocument, &kept); err != nil {
		return err
	} else if found {
		r.about.TableVersion, r.about.Table = kept.Version, kept.Body
	}
	for _, replica := range r.dir.Replicas() {
		survivor, state := r.dir.Replay(replica)
		found := Replica{Survivor: survivor, Node: identity.Node}
		if state != nil {
			found.Epoch, found.Seq, found.Time, found.Records = state.Epoch(), state.Seq(), state.Time(),
				state.Records()
			found.Sum, found.Sums, found.Adopted = state.Sum(), state.Sums(), shard.AdoptedVersion(state)
			if replica.Shard == shard.System {
				r.noteTable(state)
			}
		}
		r.about.Replicas = append(r.about.Replicas, found)
	}
	return nil
}

// noteTable takes the table of a replica of the system shard, if it is newer than what the node had kept.
func (r *remnant) noteTable(system *shard.State) {
	if d, err := shard.ReadNewerDocument(system, placement.TableDocument, r.about.TableVersion); err == nil &&
		d.Version > 0 {
		r.about.TableVersion, r.about.Table = d.Version, d.Body
	}
}

func (r *remnant) openPart(size int64) (err error) {
	if r.file, err = os.Open(r.from); err != nil {
		return err
	}
	if r.part, err = backup.OpenPart(r.file, size); err == nil {
		err = json.Unmarshal(r.part.About, &r.about)
	}
	if err != nil {
		return fmt.Errorf("%s is no data directory, and no part that stint tool recover wrote: %w", r.from, err)
	}
	return nil
}

// state reads the state of the replica at a place in the list. A part has no section for an unreadable one, so the
// places of the sections differ.
func (r *remnant) state(place int) (*shard.State, error) {
	if r.dir == nil {
		section := 0
		for i := range place {
			if r.about.Replicas[i].Unreadable == "" {
				section++
			}
		}
		return r.part.State(section)
	}
	survivor, state := r.dir.Replay(r.about.Replicas[place].Replica)
	if state == nil {
		return nil, errors.New(survivor.Unreadable)
	}
	return state, nil
}

// writePart writes a directory as a part: what is known of all replicas, and the states of those that can be read,
// which it reads again.
func (r *remnant) writePart(out io.Writer, release string) error {
	about := r.about
	about.Release = release
	text, err := json.Marshal(about)
	if err != nil {
		return err
	}
	h := backup.PartHeader{Release: release, Level: about.Level, About: text}
	var places []int
	for i := range about.Replicas {
		if about.Replicas[i].Unreadable == "" {
			h.Shards, places = append(h.Shards, about.Replicas[i].Shard), append(places, i)
		}
	}
	w, err := backup.NewPartWriter(out, h)
	if err != nil {
		return err
	}
	for _, place := range places {
		state, err := r.state(place)
		if err == nil {
			err = w.State(state)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", about.Replicas[place].Name, err)
		}
	}
	return w.Finish()
}

func (r *remnant) close() error {
	var errs []error
	if r.dir != nil {
		errs = append(errs, r.dir.Close())
	}
	if r.file != nil {
		errs = append(errs, r.file.Close())
	}
	return errors.Join(errs...)
}
