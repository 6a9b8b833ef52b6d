package login

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/serverstore"
)

const (
	// sessionsFresh is how long it is known of a session that it lasts, or has ended, so that few requests call the
	// engine.
	sessionsFresh = 2 * time.Second
	// maxKnown bounds the sessions that are known.
	maxKnown = 10000
)

// sessions knows which sessions of a store last. It is safe for concurrent use.
type sessions struct {
	store *serverstore.Store

	mu    sync.Mutex
	known map[string]knownSession
}

// knownSession is the state of a session when it was read.
type knownSession struct {
	lasts  bool
	readAt time.Time
}

func newSessions(store *serverstore.Store) *sessions {
	return &sessions{store: store, known: map[string]knownSession{}}
}

// last reports whether a session has not been removed. An engine in contract mode stores none: they last until they
// expire.
func (s *sessions) last(ctx context.Context, id string, now time.Time) (bool, error) {
	s.mu.Lock()
	known, found := s.known[id]
	s.mu.Unlock()
	if found && now.Sub(known.readAt) < sessionsFresh {
		return known.lasts, nil
	}
	_, err := s.store.Session(ctx, id)
	lasts := err == nil || errors.Is(err, enginecore.ErrContractOnly)
	if !lasts && !errors.Is(err, serverstore.ErrSessionNotFound) {
		return false, err
	}
	s.note(id, knownSession{lasts, now})
	return lasts, nil
}

func (s *sessions) note(id string, is knownSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) >= maxKnown {
		for id, known := range s.known {
			if is.readAt.Sub(known.readAt) >= sessionsFresh {
				delete(s.known, id)
			}
		}
	}
	if len(s.known) < maxKnown {
		s.known[id] = is
	}
}

// end ends a session.
func (s *sessions) end(ctx context.Context, id string) error {
	err := s.store.RemoveSession(ctx, id)
	if errors.Is(err, serverstore.ErrSessionNotFound) || errors.Is(err, enginecore.ErrContractOnly) {
		err = nil
	}
	if err == nil {
		s.mu.Lock()
		delete(s.known, id)
		s.mu.Unlock()
	}
	return err
}
