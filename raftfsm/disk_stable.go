package raftfsm

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The keys under which hashicorp/raft keeps its vote.
const (
	keyCurrentTerm = "CurrentTerm"
	keyVoteTerm    = "LastVoteTerm"
	keyVoteFor     = "LastVoteCand"
)

// stableStore holds one group's terms and votes. It implements raft.StableStore, and only raft's main goroutine calls
// it.
//
// raft writes a vote in two calls, first the term, then the candidate. A crash between them would leave the new term
// with the old candidate: the replica could then vote for a second candidate, or believe that it voted for one that it
// never chose (hashicorp/raft issue 661). So the term is held back here, and the call with the candidate writes both as
// one value.
type stableStore struct {
	file     boltFile // shared by all groups
	prefix   string   // Replica.stablePrefix
	voteTerm uint64   // written by the next vote; 0: none
}

// Set implements raft.StableStore.
func (s *stableStore) Set(key, value []byte) error {
	if string(key) != keyVoteFor {
		return s.file.put(s.prefix+string(key), value)
	}
	if s.voteTerm == 0 {
		return errors.New("raft stored a vote without its term")
	}
	vote := append(binary.BigEndian.AppendUint64(nil, s.voteTerm), value...)
	s.voteTerm = 0
	return s.file.put(s.prefix+keyVoteFor, vote)
}

// Get implements raft.StableStore.
func (s *stableStore) Get(key []byte) ([]byte, error) {
	if string(key) == keyVoteFor {
		_, candidate, err := s.vote()
		return candidate, err
	}
	return s.file.get(s.prefix + string(key))
}

// SetUint64 implements raft.StableStore.
func (s *stableStore) SetUint64(key []byte, value uint64) error {
	if string(key) == keyVoteTerm {
		//mutant:vote-written-in-two-steps 2
		s.voteTerm = value
		return nil
	}
	return s.file.put(s.prefix+string(key), binary.BigEndian.AppendUint64(nil, value))
}

// GetUint64 implements raft.StableStore.
func (s *stableStore) GetUint64(key []byte) (uint64, error) {
	if string(key) == keyVoteTerm {
		term, _, err := s.vote()
		return term, err
	}
	b, err := s.file.get(s.prefix + string(key))
	if err != nil {
		return 0, err
	}
	if len(b) != 8 {
		return 0, fmt.Errorf("%q: %d bytes where 8 belong: %w", s.prefix+string(key), len(b), ErrCorrupt)
	}
	return binary.BigEndian.Uint64(b), nil
}

// vote returns the newest vote that was written completely.
func (s *stableStore) vote() (term uint64, candidate []byte, err error) {
	b, err := s.file.get(s.prefix + keyVoteFor)
	if err != nil { //mutant:node-forgets-its-vote
		return 0, nil, err
	}
	if len(b) < 8 {
		return 0, nil, fmt.Errorf("%q: %d bytes are too few: %w", s.prefix+keyVoteFor, len(b), ErrCorrupt)
	}
	return binary.BigEndian.Uint64(b), b[8:], nil //mutant:vote-read-in-two-writes
}

// currentTerm returns the current term, or 0 for a group that never had one.
func (s *stableStore) currentTerm() (uint64, error) {
	term, err := s.GetUint64([]byte(keyCurrentTerm))
	if err == errNotFound {
		return 0, nil
	}
	return term, err
}
