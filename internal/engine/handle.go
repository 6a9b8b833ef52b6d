package engine

import (
	"context"

	"github.com/flowfabric/flowfabric-go/internal/auditlink"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// Handle carries the session of a runtime.Engine or a runtime.Client to packages of this module; programs can do
// nothing with it.
type Handle struct {
	session *Session
	err     error
	audit   Audit
}

// Audit writes an entry into the audit log, carries an action out, and records its failure.
type Audit func(ctx context.Context, e auditlink.Entry, act func() error) error

// HandleOf returns the handle of a session. audit records the actions that go through its owner.
func HandleOf(s *Session, audit Audit) Handle { return Handle{session: s, audit: audit} }

// Unusable returns the handle of an owner that has no session, or a closed one.
func Unusable(err error) Handle { return Handle{err: err} }

// SessionOf returns the session of a handle, or why its owner cannot be used.
func SessionOf(h Handle) (*Session, error) { return h.session, h.err }

// ConnOf returns the connection of a handle, with the keys and the typed calls of the library; nil without a session.
func ConnOf(h Handle) *enginerpc.Conn {
	if h.session == nil {
		return nil
	}
	return h.session.Core
}

// Audited writes an entry into the audit log of an engine, or of a client in its namespace, then runs the action and
// records its failure. In contract mode, which has no log, it only runs the action. The error of an engine or a client
// that cannot be used is the one of its methods.
func Audited(ctx context.Context, h Handle, e auditlink.Entry, act func() error) error {
	if h.err != nil {
		return h.err
	}
	return h.audit(ctx, e, act)
}
