package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// source is a set that is kept in one key of each partition.
type source struct {
	partitions []keyspace.Partition
	key        func(keyspace.Partition) string
	sorted     bool // sorted sets
}

const (
	defaultLimit = 100
	maxLimit     = 1000
	// glance is how many partitions one read checks for the next one that is not empty.
	glance = 64
)

func (c *Client) scan(ctx context.Context, s source, cursor string, limit int) ([]string, string, error) {
	ids, next, _, err := c.scanPlaces(ctx, s, cursor, limit)
	return ids, next, err
}

// scanPlaces reads about limit members of the sets from a cursor on. A scan gives whatever is in its set all the while.
// With each member comes its partition.
func (c *Client) scanPlaces(
	ctx context.Context, s source, cursor string, limit int,
) (ids []string, next string, places []keyspace.Partition, err error) {
	if limit <= 0 {
		limit = defaultLimit
	}
	limit = min(limit, maxLimit)
	at, from, err := parseCursor(cursor, s.partitions)
	if err != nil {
		return nil, "", nil, err
	}
	seen := &glimpse{}
	for len(ids) < limit && at < len(s.partitions) {
		if from.cursor == 0 {
			if at, err = c.nextFilled(ctx, s, seen, at); err != nil || at == len(s.partitions) {
				break
			}
		}
		found, following, err := c.scanOne(ctx, s, s.partitions[at], from, limit-len(ids))
		if err != nil {
			return nil, "", nil, err
		}
		for _, id := range found {
			ids, places = append(ids, id), append(places, s.partitions[at])
		}
		if from = following; from.cursor == 0 {
			at++
		}
	}
	if err != nil || at >= len(s.partitions) {
		return ids, "", places, err
	}
	return ids, from.text(s.partitions[at]), places, nil
}

// place is the position at which a scan of a set continues. Its cursor is valid for one run of one server only: another
// one keeps the same set in another order.
type place struct {
	cursor uint64
	server string // "" when it is not known
}

// text is "<partition>.<cursor>.<server>".
func (at place) text(p keyspace.Partition) string {
	return fmt.Sprintf("%d.%d.%s", p.Index, at.cursor, at.server)
}

func parseCursor(text string, partitions []keyspace.Partition) (at int, from place, err error) {
	if text == "" {
		return 0, place{}, nil
	}
	at, rest, err := placeOf(text, "", partitions)
	if err != nil {
		return 0, place{}, err
	}
	cursor, server, _ := strings.Cut(rest, ".")
	from.server = server
	if from.cursor, err = strconv.ParseUint(cursor, 10, 64); err != nil {
		return 0, place{}, fmt.Errorf("%w: %.80q", runtime.ErrCursor, text)
	}
	return at, from, nil
}

// placeOf returns the place of the partition in a cursor "<prefix><partition>.<rest>", and the rest.
func placeOf(cursor, prefix string, partitions []keyspace.Partition) (at int, rest string, err error) {
	index, rest, _ := strings.Cut(strings.TrimPrefix(cursor, prefix), ".")
	number, err := strconv.ParseUint(index, 10, 16)
	at = slices.IndexFunc(partitions, func(p keyspace.Partition) bool { return uint64(p.Index) == number })
	if err != nil || at < 0 {
		return 0, "", fmt.Errorf("%w: %.80q", runtime.ErrCursor, cursor)
	}
	return at, rest, nil
}

// glimpse records which of some partitions had entries when they were read.
type glimpse struct {
	from   int
	filled []bool
}

// nextFilled is the next partition, from one on, that holds something.
func (c *Client) nextFilled(ctx context.Context, s source, seen *glimpse, from int) (int, error) {
	for ; from < len(s.partitions); from++ {
		if from >= seen.from+len(seen.filled) {
			if err := c.look(ctx, s, seen, from); err != nil {
				return 0, err
			}
		}
		if seen.filled[from-seen.from] {
			break
		}
	}
	return from, nil
}

// look checks which partitions hold something, some from one on.
func (c *Client) look(ctx context.Context, s source, seen *glimpse, from int) error {
	group := s.partitions[from:min(from+glance, len(s.partitions))]
	commands := make([]rueidis.Completed, len(group))
	for i, p := range group {
		commands[i] = c.client.B().Exists().Key(s.key(p)).Build()
	}
	results, err := c.read(ctx, commands...)
	if err != nil {
		return err
	}
	*seen = glimpse{from: from}
	for i := range results {
		n, _ := results[i].AsInt64() // read has returned any error
		seen.filled = append(seen.filled, n > 0)
	}
	return nil
}

// scanOne continues the scan of one set, or begins anew when another server, or another run of it, has the set by now.
func (c *Client) scanOne(
	ctx context.Context, s source, p keyspace.Partition, from place, count int,
) (found []string, next place, err error) {
	deadline := time.Now().Add(readPatience)
	for {
		found, next, err = c.scanOn(ctx, s, p, from.cursor, count)
		if err == nil {
			if from.cursor == 0 || next.server == from.server {
				return found, next, nil
			}
			from = place{server: next.server}
			continue
		}
		if ctx.Err() != nil {
			return nil, place{}, fmt.Errorf("read: %w", context.Cause(ctx))
		}
		if !passes(err) || time.Now().After(deadline) {
			return nil, place{}, readError(ctx, err)
		}
		select { // the client learns in the meantime which server has the slot
		case <-ctx.Done():
			return nil, place{}, fmt.Errorf("read: %w", context.Cause(ctx))
		case <-time.After(readPause):
		}
	}
}

const (
	// readPatience bounds how long a read waits for a server that is away, or for a slot that moves.
	readPatience = 15 * time.Second
	readPause    = 50 * time.Millisecond
)

// passes reports whether a read may be tried again: the connection is gone, the server is not ready, or it replied that
// a slot has moved or is about to, which a connection to one fixed server receives as an error.
func passes(err error) bool {
	server, ok := rueidis.IsRedisErr(err)
	if !ok {
		return !errors.Is(err, rueidis.ErrClosing)
	}
	_, moved := server.IsMoved()
	_, asks := server.IsAsk()
	return moved || asks || server.IsTryAgain() || server.IsClusterDown() || server.IsLoading()
}

// scanOn reads a part of one set and, on the same connection, the id of the server that returns it.
func (c *Client) scanOn(
	ctx context.Context, s source, p keyspace.Partition, cursor uint64, count int,
) ([]string, place, error) {
	wire, release := c.client.Dedicate()
	// A connection on which the client library has waited for ctx is unsubscribed from everything when it is released.
	// The library panics, in a separate goroutine, if the server refuses the PING after that, as one that cannot
	// persist does. Closing the connection ends a read as well.
	stop := context.AfterFunc(ctx, wire.Close)
	defer func() {
		if !stop() {
			wire.Close() // before the next user gets the connection
		}
		release()
	}()
	scan := wire.B().Sscan().Key(s.key(p)).Cursor(cursor).Count(int64(count)).Build()
	if s.sorted {
		scan = wire.B().Zscan().Key(s.key(p)).Cursor(cursor).Count(int64(count)).Build()
	}
	results := wire.DoMulti(context.WithoutCancel(ctx), scan, wire.B().Info().Section("server").Build())
	entry, err := results[0].AsScanEntry()
	if err != nil {
		return nil, place{}, err
	}
	next := place{cursor: entry.Cursor}
	if info, err := results[1].ToString(); err == nil { // a server that refuses INFO counts as one that never changes
		_, rest, _ := strings.Cut(info, "\r\nrun_id:")
		run, _, _ := strings.Cut(rest, "\r\n")
		next.server = run[:min(len(run), serverDigits)]
	}
	if !s.sorted {
		return entry.Elements, next, nil
	}
	members := entry.Elements[:0]
	for i := 0; i < len(entry.Elements); i += 2 { // members and scores alternate
		members = append(members, entry.Elements[i])
	}
	return members, next, nil
}

// serverDigits is how much of the name of a server's run a cursor carries.
const serverDigits = 12
