package keycopy

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/redis/rueidis"
)

const (
	// commandsAtOnce and bytesAtOnce bound the commands that are sent together.
	commandsAtOnce = 512
	bytesAtOnce    = 4 << 20
	// passes bounds how often differences are written and looked for again.
	passes = 3
	// expirySlack is how much earlier than its time a key may be gone at one of the ends.
	expirySlack = 2 * time.Second
)

// Source has keys that can be read several times.
type Source interface {
	// Pieces yields all keys. An error ends the sequence.
	Pieces(ctx context.Context) iter.Seq2[Piece, error]
}

// Report has the counts of a copy.
type Report struct {
	// Keys and Bytes are the amount of data in the source; Bytes is approximately the size of names and values.
	Keys  int
	Bytes int64
	// Written is how many keys were written, Removed how many were removed because the source has none of that name.
	Written, Removed int
	// Digest is the digest of all keys that do not expire, the same at both ends.
	Digest Digest
}

// Progress is called at intervals with the number of keys that a pass has handled. Nil reports nothing.
type Progress func(step string, keys int)

// Report calls p, unless it is nil.
func (p Progress) Report(step string, keys int) {
	if p != nil {
		p(step, keys)
	}
}

// Copy makes the keys of target equal to the keys of source, and verifies that by reading both. With fresh, target has
// no keys; otherwise Copy writes only keys that differ, so it continues a copy that was interrupted. Keys that have
// expired at one of the ends need not be at the other one. The error wraps ErrInUse when the ends differ after several
// passes.
func Copy(ctx context.Context, source Source, target *Store, fresh bool, progress Progress) (Report, error) {
	report := Report{}
	if fresh {
		n, err := target.write(ctx, source, nil, progress)
		report.Written += n
		if err != nil {
			return report, err
		}
	}
	for pass := 0; ; pass++ {
		c := comparison{source: source, target: target, progress: progress}
		if err := c.run(ctx); err != nil {
			return report, err
		}
		report.Keys, report.Bytes, report.Digest = c.keys, c.bytes, c.digest
		if len(c.differ)+len(c.extra) == 0 {
			return report, nil
		}
		if pass == passes {
			return report, fmt.Errorf("%w: after %d passes, %d keys differ, such as %q: something still writes to it",
				ErrInUse, passes, len(c.differ)+len(c.extra), c.example())
		}
		if err := target.remove(ctx, c.extra); err != nil {
			return report, err
		}
		report.Removed += len(c.extra)
		n, err := target.write(ctx, source, c.differ, progress)
		report.Written += n
		if err != nil {
			return report, err
		}
	}
}

// write writes the keys of a source: all of them, or those in only if that is not nil. It returns how many.
func (s *Store) write(
	ctx context.Context, source Source, only map[string]struct{}, progress Progress,
) (keys int, err error) {
	if only != nil && len(only) == 0 {
		return 0, nil
	}
	var batch rueidis.Commands
	var names []string
	size := 0
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		for i, reply := range s.client.DoMulti(ctx, batch...) {
			if err := reply.Error(); err != nil {
				return fmt.Errorf("write key %q: %w", names[i], failed("the target", err))
			}
		}
		batch, names, size = batch[:0], names[:0], 0
		progress.Report("copy", keys)
		return nil
	}
	pieces := source.Pieces(ctx)
	if store, ok := source.(*Store); ok && only != nil {
		pieces = store.some(ctx, only)
	}
	for p, err := range pieces {
		if err != nil {
			return keys, err
		}
		if _, wanted := only[p.Key]; only != nil && !wanted {
			continue
		}
		commands, err := p.commands(s.client.B())
		if err != nil {
			return keys, err
		}
		for range commands {
			names = append(names, p.Key)
		}
		batch = append(batch, commands...)
		if size += p.bytes(); p.Last {
			keys++
		}
		if len(batch) >= commandsAtOnce || size >= bytesAtOnce {
			if err := flush(); err != nil {
				return keys, err
			}
		}
	}
	return keys, flush()
}

// some yields the keys with some names.
func (s *Store) some(ctx context.Context, names map[string]struct{}) iter.Seq2[Piece, error] {
	return func(yield func(Piece, error) bool) {
		list := make([]string, 0, len(names))
		for name := range names {
			list = append(list, name)
		}
		for keys := range slices.Chunk(list, keysAtOnce) {
			for p, err := range s.Read(ctx, keys) {
				if !yield(p, err) || err != nil {
					return
				}
			}
		}
	}
}

// remove removes keys.
func (s *Store) remove(ctx context.Context, keys []string) error {
	for some := range slices.Chunk(keys, commandsAtOnce) {
		batch := make(rueidis.Commands, 0, len(some))
		for _, key := range some {
			batch = append(batch, s.client.B().Unlink().Key(key).Build())
		}
		for i, reply := range s.client.DoMulti(ctx, batch...) {
			if err := reply.Error(); err != nil {
				return fmt.Errorf("remove key %q: %w", some[i], failed("the target", err))
			}
		}
	}
	return nil
}

// Clear removes all keys.
func (s *Store) Clear(ctx context.Context) (removed int, err error) {
	for keys, err := range s.Keys(ctx) {
		if err != nil {
			return removed, err
		}
		if err := s.remove(ctx, keys); err != nil {
			return removed, err
		}
		removed += len(keys)
	}
	return removed, nil
}

// keyState is the content of a key in short.
type keyState struct {
	digest   Digest
	expireAt int64
}

// comparison finds the keys in which two ends differ.
type comparison struct {
	source   Source
	target   *Store
	progress Progress

	keys   int
	bytes  int64
	digest Digest
	differ map[string]struct{} // keys that have to be written
	extra  []string            // keys of the target alone
}

func (c *comparison) example() string {
	for key := range c.differ {
		return key
	}
	return c.extra[0]
}

func (c *comparison) run(ctx context.Context) error {
	c.differ = make(map[string]struct{})
	seen := make(map[keyHash]struct{})
	batch := make(map[string]keyState, keysAtOnce)
	var current keyDigest
	for p, err := range c.source.Pieces(ctx) {
		if err != nil {
			return err
		}
		if p.First {
			current = keyDigest{}
		}
		current.add(&p)
		c.bytes += int64(p.bytes())
		if !p.Last {
			continue
		}
		c.keys++
		seen[hashKey(p.Key)] = struct{}{}
		batch[p.Key] = keyState{current.sum(&p), p.ExpireAt}
		if len(batch) == keysAtOnce {
			if err := c.compare(ctx, batch); err != nil {
				return err
			}
			clear(batch)
		}
	}
	if err := c.compare(ctx, batch); err != nil {
		return err
	}
	for keys, err := range c.target.Keys(ctx) {
		if err != nil {
			return err
		}
		for _, key := range keys {
			if _, ok := seen[hashKey(key)]; !ok {
				c.extra = append(c.extra, key)
			}
		}
	}
	return nil
}

// compare compares some keys of the source with the target.
func (c *comparison) compare(ctx context.Context, want map[string]keyState) error {
	if len(want) == 0 {
		return nil
	}
	names := make([]string, 0, len(want))
	for key := range want {
		names = append(names, key)
	}
	have := make(map[string]Digest, len(want))
	var current keyDigest
	for p, err := range c.target.Read(ctx, names) {
		if err != nil {
			return err
		}
		if p.First {
			current = keyDigest{}
		}
		if current.add(&p); p.Last {
			have[p.Key] = current.sum(&p)
		}
	}
	now, err := c.target.now(ctx)
	if err != nil {
		return err
	}
	for key, w := range want {
		digest, there := have[key]
		expired := w.expireAt > 0 && w.expireAt < now.Add(expirySlack).UnixMilli()
		if digest != w.digest && (there || !expired) {
			c.differ[key] = struct{}{}
		}
		if w.expireAt == 0 {
			c.digest.add(w.digest)
		}
	}
	c.progress.Report("compare", c.keys)
	return nil
}

// now is the time by the clock of a server.
func (s *Store) now(ctx context.Context) (time.Time, error) {
	reply, err := s.client.Do(ctx, s.client.B().Time().Build()).AsIntSlice()
	if err != nil || len(reply) != 2 {
		return time.Time{}, failed("TIME", err)
	}
	return time.Unix(reply[0], reply[1]*1000), nil
}

// Sum reads a source and returns its counts and digest, without a target.
func Sum(ctx context.Context, source Source, also func(Piece) error, progress Progress) (Report, error) {
	var report Report
	var current keyDigest
	for p, err := range source.Pieces(ctx) {
		if err == nil && also != nil {
			err = also(p)
		}
		if err != nil {
			return report, err
		}
		if p.First {
			current = keyDigest{}
		}
		current.add(&p)
		report.Bytes += int64(p.bytes())
		if p.Last {
			report.Keys++
			if p.ExpireAt == 0 {
				report.Digest.add(current.sum(&p))
			}
			if report.Keys%keysAtOnce == 0 {
				progress.Report("read", report.Keys)
			}
		}
	}
	return report, nil
}
