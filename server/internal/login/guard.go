package login

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/api"
)

// ErrEnded is why the context of a request, a stream or a registration ends whose credentials were deleted, have
// expired, or have fewer rights than before.
var ErrEnded = errors.New("the credentials are not valid any more, or have fewer rights than before")

// guardEvery is the time between two checks of the credentials of long requests.
const guardEvery = 2 * time.Second

// Guard checks the credentials of requests repeatedly until they end, and ends requests that the credentials no longer
// allow. It is safe for concurrent use.
type Guard struct {
	mu   sync.Mutex
	held map[*held]struct{}
}

// NewGuard returns a guard, which does nothing before Run.
func NewGuard() *Guard { return &Guard{held: map[*held]struct{}{}} }

// loginSession is the login of a request.
type loginSession struct {
	guard     *Guard
	principal Principal
	again     func(context.Context) (Principal, error)
}

type sessionKey struct{}

// held is something that lasts.
type held struct {
	*loginSession
	ctx context.Context
	end context.CancelCauseFunc
}

// Begin returns the context of a request of a principal: it has the principal, and ends with ErrEnded as cause when
// the credentials do. again checks the credentials; an error of again other than ErrRefused has no effect. The caller
// calls done.
func (g *Guard) Begin(
	ctx context.Context, p Principal, again func(context.Context) (Principal, error),
) (begun context.Context, done context.CancelFunc) {
	s := &loginSession{g, p, again}
	return s.hold(context.WithValue(With(ctx, p), sessionKey{}, s))
}

// Detach returns a context that outlives the request of ctx, but not its credentials. The caller calls done. A context
// without a login, such as a context of a client in the process, ends with done alone.
func Detach(ctx context.Context) (detached context.Context, done context.CancelFunc) {
	detached = context.WithoutCancel(ctx)
	if s, ok := ctx.Value(sessionKey{}).(*loginSession); ok {
		return s.hold(detached)
	}
	return context.WithCancel(detached)
}

func (s *loginSession) hold(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(ctx)
	h := &held{s, ctx, end}
	s.guard.mu.Lock()
	s.guard.held[h] = struct{}{}
	s.guard.mu.Unlock()
	return ctx, func() {
		s.guard.mu.Lock()
		delete(s.guard.held, h)
		s.guard.mu.Unlock()
		end(nil)
	}
}

// Run checks all credentials every two seconds until ctx ends.
func (g *Guard) Run(ctx context.Context) {
	tick := time.NewTicker(guardEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			g.look(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// look checks the credentials of each login once.
func (g *Guard) look(ctx context.Context) {
	g.mu.Lock()
	of := make(map[*loginSession][]*held, len(g.held))
	for h := range g.held {
		of[h.loginSession] = append(of[h.loginSession], h)
	}
	g.mu.Unlock()
	for s, all := range of {
		if ctx.Err() != nil || s.lasts(ctx) {
			continue
		}
		for _, h := range all {
			h.end(ErrEnded)
		}
	}
}

// lasts reports whether the credentials still give the rights that they gave at the beginning.
func (s *loginSession) lasts(ctx context.Context) bool {
	now, err := s.again(ctx)
	switch {
	case errors.Is(err, ErrRefused):
		return false
	case err != nil:
		return true // the engine or the provider does not answer: nothing is known
	}
	lost := slices.ContainsFunc(s.principal.Rights, func(right api.Right) bool { return !now.May(right) })
	return !lost && now.ID() == s.principal.ID() && now.Flows == s.principal.Flows
}
