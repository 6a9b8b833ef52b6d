package admin

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// source is a set that is kept in one key of each partition.
type source struct {
	partitions []enginecore.Partition
	key        func(enginecore.Partition) string
	sorted     bool // sorted sets
}

const (
	defaultLimit = 100
	maxLimit     = 1000
	// glance is how many partitions are looked at in one go for the next one that holds something.
	glance = 64
)

func (c *Client) scan(ctx context.Context, s source, cursor string, limit int) ([]string, string, error) {
	ids, next, _, err := c.scanPlaces(ctx, s, cursor, limit)
	return ids, next, err
}

// scanPlaces reads about limit members of the sets from a cursor on: "<partition>.<cursor of its scan>". A scan gives
// whatever is in its set all the while. With each member comes its partition.
func (c *Client) scanPlaces(ctx context.Context, s source, cursor string, limit int) (ids []string, next string, places []enginecore.Partition, err error) {
	if limit <= 0 {
		limit = defaultLimit
	}
	limit = min(limit, maxLimit)
	at, place, err := parseCursor(cursor, s.partitions)
	if err != nil {
		return nil, "", nil, err
	}
	seen := &glimpse{}
	for len(ids) < limit && at < len(s.partitions) {
		if place == 0 {
			if at, err = c.nextFilled(ctx, s, seen, at); err != nil || at == len(s.partitions) {
				break
			}
		}
		entry, err := c.scanOne(ctx, s, s.partitions[at], place, limit-len(ids))
		if err != nil {
			return nil, "", nil, err
		}
		for _, id := range entry.Elements {
			ids, places = append(ids, id), append(places, s.partitions[at])
		}
		if place = entry.Cursor; place == 0 {
			at++
		}
	}
	if err != nil || at >= len(s.partitions) {
		return ids, "", places, err
	}
	return ids, strconv.Itoa(int(s.partitions[at].Index)) + "." + strconv.FormatUint(place, 10), places, nil
}

func parseCursor(text string, partitions []enginecore.Partition) (at int, place uint64, err error) {
	if text == "" {
		return 0, 0, nil
	}
	index, rest, _ := strings.Cut(text, ".")
	number, err1 := strconv.ParseUint(index, 10, 16)
	place, err2 := strconv.ParseUint(rest, 10, 64)
	at = slices.IndexFunc(partitions, func(p enginecore.Partition) bool { return uint64(p.Index) == number })
	if err1 != nil || err2 != nil || at < 0 {
		return 0, 0, fmt.Errorf("%w: %.80q", ErrCursor, text)
	}
	return at, place, nil
}

// glimpse tells of some partitions which held something when they were looked at.
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

// look asks which partitions hold something, some from one on.
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
		n, _ := results[i].AsInt64() // read has looked for errors
		seen.filled = append(seen.filled, n > 0)
	}
	return nil
}

func (c *Client) scanOne(ctx context.Context, s source, p enginecore.Partition, place uint64, count int) (rueidis.ScanEntry, error) {
	if !s.sorted {
		entry, err := c.client.Do(ctx, c.client.B().Sscan().Key(s.key(p)).Cursor(place).Count(int64(count)).Build()).AsScanEntry()
		if err != nil {
			return entry, readError(err)
		}
		return entry, nil
	}
	entry, err := c.client.Do(ctx, c.client.B().Zscan().Key(s.key(p)).Cursor(place).Count(int64(count)).Build()).AsScanEntry()
	if err != nil {
		return entry, readError(err)
	}
	members := entry.Elements[:0]
	for i := 0; i < len(entry.Elements); i += 2 { // scores stand between
		members = append(members, entry.Elements[i])
	}
	entry.Elements = members
	return entry, nil
}
