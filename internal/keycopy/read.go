package keycopy

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

const (
	// scanned is the number of keys that one SCAN requests, keysAtOnce how many are read together.
	scanned    = 1000
	keysAtOnce = 64
	// The sizes of one read of a part of a large key.
	fieldsAtOnce, elementsAtOnce, membersAtOnce, entriesAtOnce = 128, 256, 1000, 100
)

// Store is the keys of a deployment on a server, on a cluster or in a directory.
type Store struct {
	client rueidis.Client
	prefix string
	// skip is a key that is not copied: the one with the mark.
	skip string
}

// NewStore returns the keys that begin with the prefix of a deployment, except the key with its mark.
func NewStore(client rueidis.Client, keys enginerpc.Keys) *Store {
	return &Store{client: client, prefix: keys.Prefix(), skip: keys.FfxProtocol()}
}

// Pieces yields all keys. A key that changes during the iteration may be yielded in any state, or torn.
func (s *Store) Pieces(ctx context.Context) iter.Seq2[Piece, error] {
	return func(yield func(Piece, error) bool) {
		for keys, err := range s.Keys(ctx) {
			if err != nil {
				yield(Piece{}, err)
				return
			}
			for some := range slices.Chunk(keys, keysAtOnce) {
				for p, err := range s.Read(ctx, some) {
					if !yield(p, err) || err != nil {
						return
					}
				}
			}
		}
	}
}

// keyHash identifies a key in little memory.
type keyHash [16]byte

func hashKey(key string) keyHash {
	d := hashOf(key)
	return keyHash(d[:16])
}

// Keys yields the names of all keys, each once, in lists.
func (s *Store) Keys(ctx context.Context) iter.Seq2[[]string, error] {
	return func(yield func([]string, error) bool) {
		seen := make(map[keyHash]struct{})
		nodes, err := primaries(ctx, s.client)
		if err != nil {
			yield(nil, err)
			return
		}
		for _, node := range nodes {
			for cursor, first := uint64(0), true; first || cursor != 0; first = false {
				scan := node.B().Scan().Cursor(cursor).Match(s.prefix + ":*").Count(scanned).Build()
				page, err := node.Do(ctx, scan).AsScanEntry()
				if err != nil {
					yield(nil, failed("SCAN", err))
					return
				}
				cursor = page.Cursor
				keys := slices.DeleteFunc(page.Elements, func(key string) bool {
					_, again := seen[hashKey(key)]
					seen[hashKey(key)] = struct{}{}
					return again || key == s.skip
				})
				if len(keys) > 0 && !yield(keys, nil) {
					return
				}
			}
		}
	}
}

// primaries are the servers that have keys.
func primaries(ctx context.Context, client rueidis.Client) ([]rueidis.Client, error) {
	nodes := client.Nodes()
	var out []rueidis.Client
	for address, node := range nodes {
		if len(nodes) == 1 {
			return []rueidis.Client{node}, nil
		}
		role, err := node.Do(ctx, node.B().Role().Build()).ToArray()
		if err != nil {
			return nil, fmt.Errorf("server %s: %w", address, failed("ROLE", err))
		}
		if name, _ := role[0].ToString(); name == "master" {
			out = append(out, node)
		}
	}
	return out, nil
}

// failed returns an error that names the command that a server refused, or states that it cannot be reached.
func failed(command string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", command, enginerpc.ConnectError(err))
}

// Read yields some keys. Those that are gone are left out.
func (s *Store) Read(ctx context.Context, keys []string) iter.Seq2[Piece, error] {
	return func(yield func(Piece, error) bool) {
		heads, err := s.heads(ctx, keys)
		if err != nil {
			yield(Piece{}, err)
			return
		}
		first := make(rueidis.Commands, 0, len(heads))
		for _, h := range heads {
			first = append(first, h.next(s.client.B()))
		}
		if len(first) == 0 {
			return
		}
		for i, reply := range s.client.DoMulti(ctx, first...) {
			if err := s.rest(ctx, heads[i], reply, yield); err != nil {
				if !errors.Is(err, errStopped) {
					yield(Piece{}, err)
				}
				return
			}
		}
	}
}

var errStopped = errors.New("stopped")

// heads reads the types of keys and when they expire.
func (s *Store) heads(ctx context.Context, keys []string) ([]*cursor, error) {
	b := s.client.B()
	ask := make(rueidis.Commands, 0, 2*len(keys))
	for _, key := range keys {
		ask = append(ask, b.Type().Key(key).Build(), b.Pexpiretime().Key(key).Build())
	}
	var heads, streams []*cursor
	replies := s.client.DoMulti(ctx, ask...)
	for i, key := range keys {
		kind, err := replies[2*i].ToString()
		if err != nil {
			return nil, failed("TYPE", err)
		}
		expires, err := replies[2*i+1].AsInt64()
		if err != nil {
			return nil, failed("PEXPIRETIME", err)
		}
		if kind == "none" || expires == -2 {
			continue
		}
		c := &cursor{piece: Piece{Key: key, Kind: Kind(kind), ExpireAt: max(expires, 0), First: true}}
		if heads = append(heads, c); c.piece.Kind == Stream {
			streams = append(streams, c)
		}
		switch c.piece.Kind {
		case String, Hash, List, Set, Sorted, Stream:
		default:
			return nil, fmt.Errorf("key %q is a %s, which is none of the types that FlowFabric uses", key, kind)
		}
	}
	return heads, s.streamStates(ctx, streams)
}

func (s *Store) streamStates(ctx context.Context, streams []*cursor) error {
	ask := make(rueidis.Commands, 0, len(streams))
	for _, c := range streams {
		ask = append(ask, s.client.B().XinfoStream().Key(c.piece.Key).Build())
	}
	if len(ask) == 0 {
		return nil
	}
	for i, reply := range s.client.DoMulti(ctx, ask...) {
		info, err := reply.AsMap()
		if err != nil {
			return failed("XINFO STREAM", err)
		}
		text := func(field string) string {
			m := info[field]
			if n, err := m.AsInt64(); err == nil {
				return strconv.FormatInt(n, 10)
			}
			t, _ := m.ToString()
			return t
		}
		streams[i].piece.Stream = StreamState{
			LastID: text("last-generated-id"), MaxDeletedID: text("max-deleted-entry-id"), Added: text("entries-added"),
		}
	}
	return nil
}

// rest yields a key, of which the first reply is there.
func (s *Store) rest(ctx context.Context, c *cursor, reply rueidis.RedisResult, yield func(Piece, error) bool) error {
	for {
		if rueidis.IsRedisNil(reply.Error()) {
			return nil // a string that is gone
		}
		if err := c.take(reply); err != nil {
			return fmt.Errorf("key %q: %w", c.piece.Key, enginerpc.ConnectError(err))
		}
		if !yield(c.piece, nil) {
			return errStopped
		}
		if c.piece.Last {
			return nil
		}
		c.piece.First = false
		reply = s.client.Do(ctx, c.next(s.client.B()))
	}
}

// cursor is a position in a key that is being read.
type cursor struct {
	piece Piece
	scan  uint64
	index int64
	after string
	seen  map[string]struct{} // fields or members of earlier pages; nil for a key of one page
}

// next is the command that reads the next part.
func (c *cursor) next(b rueidis.Builder) rueidis.Completed {
	key := c.piece.Key
	switch c.piece.Kind {
	case Hash:
		return b.Hscan().Key(key).Cursor(c.scan).Count(fieldsAtOnce).Build()
	case Set:
		return b.Sscan().Key(key).Cursor(c.scan).Count(fieldsAtOnce).Build()
	case List:
		return b.Lrange().Key(key).Start(c.index).Stop(c.index + elementsAtOnce - 1).Build()
	case Sorted:
		return b.Zrange().Key(key).Min(strconv.FormatInt(c.index, 10)).
			Max(strconv.FormatInt(c.index+membersAtOnce-1, 10)).Withscores().Build()
	case Stream:
		from := "-"
		if c.after != "" {
			from = "(" + c.after
		}
		return b.Xrange().Key(key).Start(from).End("+").Count(entriesAtOnce).Build()
	}
	return b.Get().Key(key).Build()
}

// take reads a part from a reply.
func (c *cursor) take(reply rueidis.RedisResult) error {
	p := &c.piece
	p.Items = nil
	switch p.Kind {
	case String:
		text, err := reply.ToString()
		p.Items, p.Last = []string{text}, true
		return err
	case Hash, Set:
		page, err := reply.AsScanEntry()
		if err != nil {
			return err
		}
		c.scan = page.Cursor
		p.Items, p.Last = c.unseen(page.Elements), c.scan == 0
	case List:
		items, err := reply.AsStrSlice()
		if err != nil {
			return err
		}
		c.index += int64(len(items))
		p.Items, p.Last = items, len(items) < elementsAtOnce
	case Sorted:
		members, err := reply.AsZScores()
		if err != nil {
			return err
		}
		for _, m := range members {
			p.Items = append(p.Items, strings.TrimPrefix(strconv.FormatFloat(m.Score, 'g', -1, 64), "+"), m.Member)
		}
		c.index += int64(len(members))
		p.Last = len(members) < membersAtOnce
	case Stream:
		return c.takeEntries(reply)
	}
	return nil
}

// unseen drops items that an earlier page of a scan has returned.
func (c *cursor) unseen(items []string) []string {
	if c.piece.First && c.scan == 0 {
		return items
	}
	if c.seen == nil {
		c.seen = make(map[string]struct{})
	}
	step := 1
	if c.piece.Kind == Hash {
		step = 2
	}
	var out []string
	for i := 0; i+step <= len(items); i += step {
		if _, again := c.seen[items[i]]; !again {
			c.seen[items[i]] = struct{}{}
			out = append(out, items[i:i+step]...)
		}
	}
	return out
}

func (c *cursor) takeEntries(reply rueidis.RedisResult) error {
	entries, err := reply.ToArray()
	if err != nil {
		return err
	}
	p := &c.piece
	for i := range entries {
		entry, err := entries[i].ToArray()
		if err != nil || len(entry) != 2 {
			return fmt.Errorf("XRANGE: unexpected reply: %w", err)
		}
		id, err := entry[0].ToString()
		if err != nil {
			return err
		}
		words, err := entry[1].AsStrSlice()
		if err != nil {
			return err
		}
		p.Items = append(append(p.Items, id, strconv.Itoa(len(words))), words...)
		c.after = id
	}
	p.Last = len(entries) < entriesAtOnce
	return nil
}
