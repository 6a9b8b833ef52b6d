package transport

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/internal/sleep"
)

// Dedicate implements rueidis.Client. Commands on the connection wait for it, as long as their contexts live, while it
// is being made, also if hooks are set already; rueidis returns a broken one instead.
func (c pinnedReads) Dedicate() (rueidis.DedicatedClient, func()) {
	wire, release := c.Client.Dedicate()
	if c.dialer == nil {
		return wire, release
	}
	d := &dedicated{client: c.Client, roles: c.roles, DedicatedClient: wire, release: release}
	return d, d.returnWire
}

// dedicated is a connection for one user.
type dedicated struct {
	client rueidis.Client
	roles  *links // see pinnedReads

	mu sync.Mutex
	rueidis.DedicatedClient
	release func()
	// hooked has the message hooks that the user of the connection has set; nil without any.
	hooked *hooked
	// settled is set once the connection is no longer replaced: it was closed or released.
	settled bool
}

// hooked are message hooks that are carried over when the connection is replaced.
type hooked struct {
	rueidis.PubSubHooks
	// broken receives the error when the connection breaks.
	broken chan error
}

func (d *dedicated) wire() rueidis.DedicatedClient {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.DedicatedClient
}

// settle keeps the connection from being replaced, and returns it. Its hooks are over.
func (d *dedicated) settle() (rueidis.DedicatedClient, func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.settled = true
	d.unhook(nil)
	return d.DedicatedClient, d.release
}

func (d *dedicated) returnWire() {
	_, release := d.settle()
	release()
}

// Close implements rueidis.DedicatedClient.
func (d *dedicated) Close() {
	wire, _ := d.settle()
	wire.Close()
}

// B implements rueidis.CoreClient.
func (d *dedicated) B() rueidis.Builder { return d.wire().B() }

// SetPubSubHooks implements rueidis.DedicatedClient.
func (d *dedicated) SetPubSubHooks(hooks rueidis.PubSubHooks) <-chan error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unhook(nil)
	if d.settled || hooks.OnMessage == nil && hooks.OnSubscription == nil {
		return d.DedicatedClient.SetPubSubHooks(hooks)
	}
	d.hooked = &hooked{hooks, make(chan error, 1)}
	broken := d.hooked.broken
	d.hook()
	return broken
}

// hook sets the hooks on the connection that there is.
func (d *dedicated) hook() {
	set := d.hooked
	if set == nil {
		return
	}
	wire := d.DedicatedClient
	broken := wire.SetPubSubHooks(set.PubSubHooks)
	go func() {
		err, told := <-broken // closed without an error when the connection is replaced, closed or given back
		d.mu.Lock()
		defer d.mu.Unlock()
		// The next command takes another one in place of a connection that was not made.
		if told && !errors.Is(err, ErrConnecting) && d.hooked == set && d.DedicatedClient == wire {
			d.unhook(err)
		}
	}()
}

// unhook ends the hooks, with an error if the connection broke.
func (d *dedicated) unhook(err error) {
	if d.hooked == nil {
		return
	}
	if err != nil {
		d.hooked.broken <- err
	}
	close(d.hooked.broken)
	d.hooked = nil
}

// replace takes another connection in place of one that was not made, and reports whether it did.
func (d *dedicated) replace(ctx context.Context, err error) bool {
	if err == nil || !errors.Is(err, ErrConnecting) || ctx.Err() != nil {
		return false
	}
	if sleep.For(ctx, callWait); ctx.Err() != nil {
		return false
	}
	wire, release := d.client.Dedicate()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.settled {
		release()
		return false
	}
	d.release()
	d.DedicatedClient, d.release = wire, release
	d.hook()
	return true
}

// Do implements rueidis.CoreClient.
func (d *dedicated) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	command = command.Pin() // it may be sent again
	generation := d.roles.now()
	for {
		result := d.roles.judged(generation, d.wire().Do(ctx, command))
		if d.replace(ctx, result.NonRedisError()) {
			continue
		}
		if ctx.Err() != nil && errors.Is(result.NonRedisError(), ErrConnecting) {
			return rueidis.NewErrorResult(ctx.Err())
		}
		return result
	}
}

// DoMulti implements rueidis.CoreClient.
func (d *dedicated) DoMulti(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	for i := range commands {
		commands[i] = commands[i].Pin()
	}
	generation := d.roles.now()
	for {
		results := d.roles.allJudged(generation, d.wire().DoMulti(ctx, slices.Clone(commands)...))
		if len(results) > 0 && d.replace(ctx, results[0].NonRedisError()) {
			continue
		}
		if len(results) > 0 && ctx.Err() != nil && errors.Is(results[0].NonRedisError(), ErrConnecting) {
			return failAll(commands, ctx.Err())
		}
		return results
	}
}
