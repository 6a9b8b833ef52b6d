package feeds

import "context"

// Follower waits for news of one run. It is for use by one goroutine.
type Follower interface {
	// Await returns nil when the run may have events that its caller has not read: at the first call, after a hint, and
	// at the latest after a few seconds. It returns the cause of ctx once that has ended, and fails at once if the
	// engine refuses the read for want of rights ([enginecore.ErrUnauthorized]).
	Await(ctx context.Context) error
	// Close ends the following. It may be called several times.
	Close()
}
