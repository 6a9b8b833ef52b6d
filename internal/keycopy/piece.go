package keycopy

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/rueidis"
)

// Kind is the type of a key, as the command TYPE names it.
type Kind string

// The types of keys.
const (
	String Kind = "string"
	Hash   Kind = "hash"
	List   Kind = "list"
	Set    Kind = "set"
	Sorted Kind = "zset"
	Stream Kind = "stream"
)

// Piece is a key, or a part of one. The pieces of a key come one after the other.
type Piece struct {
	Key  string
	Kind Kind
	// First and Last mark the first and the last piece of a key.
	First, Last bool
	// ExpireAt is the time at which the key expires (Unix ms), 0 for never.
	ExpireAt int64
	// Items are the value: of a string one, of hashes fields with their values, of sorted sets scores with their
	// members, of streams for each entry its id, how many words follow, and these.
	Items []string
	// Stream is the state of a stream without its entries; zero for other types.
	Stream StreamState
}

// StreamState is the state that a stream keeps in addition to its entries.
type StreamState struct {
	LastID, MaxDeletedID string
	Added                string // how many entries were ever added
}

// bytes is about the size of the piece: the same for a key as a whole, wherever it is cut.
func (p *Piece) bytes() int {
	n := 0
	if p.First {
		n = len(p.Key)
	}
	for _, item := range p.Items {
		n += len(item)
	}
	return n
}

// commands returns the commands that write the piece. The commands of all pieces of a key replace the key.
func (p *Piece) commands(b rueidis.Builder) ([]rueidis.Completed, error) {
	var out []rueidis.Completed
	if p.First {
		out = append(out, b.Del().Key(p.Key).Build())
	}
	add := func(verb string) {
		if len(p.Items) > 0 {
			out = append(out, b.Arbitrary(verb).Keys(p.Key).Args(p.Items...).Build())
		}
	}
	switch p.Kind {
	case String:
		if len(p.Items) != 1 {
			return nil, fmt.Errorf("key %q: a string with %d values", p.Key, len(p.Items))
		}
		add("SET")
	case Hash:
		add("HSET")
	case List:
		add("RPUSH")
	case Set:
		add("SADD")
	case Sorted:
		add("ZADD")
	case Stream:
		entries, err := p.streamCommands(b)
		if err != nil {
			return nil, err
		}
		out = append(out, entries...)
	default:
		return nil, fmt.Errorf("key %q: it is a %q, which is none of the types that FlowFabric uses", p.Key, p.Kind)
	}
	if p.Last && p.ExpireAt > 0 {
		out = append(out, b.Pexpireat().Key(p.Key).MillisecondsTimestamp(p.ExpireAt).Build())
	}
	return out, nil
}

func (p *Piece) streamCommands(b rueidis.Builder) ([]rueidis.Completed, error) {
	var out []rueidis.Completed
	if p.First && len(p.Items) == 0 {
		// a stream without entries: one is added and trimmed at once
		out = append(out, b.Arbitrary("XADD").Keys(p.Key).Args("MAXLEN", "0", p.Stream.LastID, "-", "-").Build())
	}
	for items := p.Items; len(items) > 0; {
		n, err := strconv.Atoi(at(items, 1))
		if err != nil || n < 2 || n > len(items)-2 {
			return nil, fmt.Errorf("key %q: a malformed entry of a stream", p.Key)
		}
		out = append(out, b.Arbitrary("XADD").Keys(p.Key).Args(slices.Concat(items[:1], items[2:2+n])...).Build())
		items = items[2+n:]
	}
	if p.Last {
		out = append(out, b.Arbitrary("XSETID").Keys(p.Key).Args(p.Stream.LastID, "ENTRIESADDED", p.Stream.Added,
			"MAXDELETEDID", p.Stream.MaxDeletedID).Build())
	}
	return out, nil
}

func at(items []string, i int) string {
	if i < len(items) {
		return items[i]
	}
	return ""
}

// Digest identifies the content of a key, or of all keys: equal contents have equal digests, regardless of the order
// in which a server lists fields, members and keys. The zero value is the digest of no keys.
type Digest [sha256.Size]byte

// add adds the digest of a part.
func (d *Digest) add(part Digest) {
	for i := 0; i < len(d); i += 8 {
		sum := binary.LittleEndian.Uint64(d[i:]) + binary.LittleEndian.Uint64(part[i:])
		binary.LittleEndian.PutUint64(d[i:], sum)
	}
}

// hashOf is the digest of texts in their order.
func hashOf(texts ...string) Digest {
	var b []byte
	for _, text := range texts {
		b = binary.AppendUvarint(b, uint64(len(text)))
		b = append(b, text...)
	}
	return sha256.Sum256(b)
}

// keyDigest gathers the digest of a key from its pieces.
type keyDigest struct {
	items Digest
	count int
}

func (k *keyDigest) add(p *Piece) {
	step := 1
	switch p.Kind {
	case Hash, Sorted:
		step = 2
	case Stream:
		// its entries have ids, and pieces may be cut anywhere between them
		for items := p.Items; len(items) > 1; {
			n, _ := strconv.Atoi(items[1])
			end := min(len(items), 2+max(n, 0))
			k.items.add(hashOf(items[:end]...))
			k.count++
			items = items[end:]
		}
		return
	}
	for i := 0; i+step <= len(p.Items); i += step {
		place := ""
		if p.Kind == List {
			place = strconv.Itoa(k.count)
		}
		k.items.add(hashOf(append([]string{place}, p.Items[i:i+step]...)...))
		k.count++
	}
}

// sum is the digest of the key, after its last piece.
func (k *keyDigest) sum(p *Piece) Digest {
	return hashOf(p.Key, string(p.Kind), strconv.FormatInt(p.ExpireAt, 10), strconv.Itoa(k.count), string(k.items[:]),
		p.Stream.LastID, p.Stream.Added)
}
