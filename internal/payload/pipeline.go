package payload

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
)

// Pipeline changes values on their way to an engine, and back. A nil Pipeline compresses and seals nothing; it opens
// values that are compressed.
type Pipeline struct {
	// Compress makes values of 2 KiB and more smaller if that saves a tenth.
	Compress bool
	// Keys seal values. Without keys, values are in the clear.
	Keys *Ring
}

// The first bytes of an envelope.
const (
	mark    = 0x01
	version = 'F'
)

// Flags of an envelope.
const (
	sealed = 1 << iota
	compressed
	stored = sealed | compressed
)

// Marks begin bytes that pass through this process alone. No value of a user begins with them, because they are random.
var (
	missing = inProcess() // the text of an error is in the place of a value whose key is missing
	altered = inProcess() // and of one that was altered
	exempt  = inProcess() // a value that Seal leaves in the clear
)

func inProcess() string { return string([]byte{mark, version}) + rand.Text() }

// MaxOverhead is how many bytes an envelope adds to a value at most.
const MaxOverhead = 3 + binary.MaxVarintLen64 + 1 + binary.MaxVarintLen16 + 1 + maxKeyID + 12 + 16

// IsEnvelope reports whether bytes begin like an envelope.
func IsEnvelope(b []byte) bool { return len(b) > 2 && b[0] == mark && b[1] == version }

// Seal returns the bytes that an engine keeps in a place for a value, which may be the value itself. An empty value
// stays empty. Seal does not change value. The error is the one of Check for a value that could not be opened.
func (p *Pipeline) Seal(place Place, value []byte) ([]byte, error) {
	if err := Check(value); err != nil {
		return nil, fmt.Errorf("seal the %s: %w", place, err)
	}
	if isExempt(value) {
		return value[len(exempt):], nil
	}
	if p == nil || len(value) == 0 || !p.Compress && p.Keys == nil {
		if IsEnvelope(value) {
			return append(header(0, len(value), len(value)), value...), nil
		}
		return value, nil
	}
	body, flags := value, byte(0)
	if p.Compress && len(value) >= minCompressed {
		if smaller := compress(value); smaller != nil {
			body, flags = smaller, compressed
		}
	}
	if p.Keys == nil {
		if flags == 0 && !IsEnvelope(value) {
			return value, nil
		}
		return append(header(flags, len(value), len(body)), body...), nil
	}
	key := p.Keys.newest()
	aead, err := key.of(place.Owner)
	if err != nil {
		return nil, fmt.Errorf("seal the %s: %w", place, err)
	}
	out := header(flags|sealed, len(value), MaxOverhead+len(body))
	out = append(out, byte(place.Slot))
	out = binary.AppendUvarint(out, uint64(place.Node)) //nolint:gosec // not negative
	out = append(out, byte(len(key.id)))
	out = append(out, key.id...)
	return aead.Seal(out, nil, body, covered(place.Owner, out)), nil
}

// header begins an envelope, with room for more.
func header(flags byte, size, more int) []byte {
	out := make([]byte, 0, 3+binary.MaxVarintLen64+more)
	out = append(out, mark, version, flags)
	return binary.AppendUvarint(out, uint64(size)) //nolint:gosec // not negative
}

// covered is the additional data of a seal.
func covered(owner string, header []byte) []byte {
	return slices.Concat([]byte(owner), []byte{0}, header)
}

// About describes an envelope to a program without its key.
type About struct {
	Size  int    // of the value, in bytes
	Key   string // the id of the key; empty without a seal
	Slot  Slot   // of a sealed value
	Node  int    // of a sealed value
	flags byte
	body  []byte
	head  []byte
}

var errMalformed = fmt.Errorf("%w: it is not an envelope", ErrAltered)

// Read reads an envelope without opening it. For other bytes, About has their size alone. The error wraps ErrAltered.
func Read(b []byte) (About, error) {
	if !IsEnvelope(b) {
		return About{Size: len(b), body: b}, nil
	}
	a := About{flags: b[2]}
	rest := b[3:]
	size, n := binary.Uvarint(rest)
	if n <= 0 || a.flags&^stored != 0 || size > maxSize {
		return About{}, errMalformed
	}
	a.Size, rest = int(size), rest[n:]
	if a.flags&sealed != 0 {
		if len(rest) < 1 {
			return About{}, errMalformed
		}
		a.Slot, rest = Slot(rest[0]), rest[1:]
		node, n := binary.Uvarint(rest)
		if n <= 0 || node > maxNode || len(rest) < n+1 || len(rest) < n+1+int(rest[n]) {
			return About{}, errMalformed
		}
		a.Node = int(node)
		from, to := n+1, n+1+int(rest[n])
		a.Key, rest = string(rest[from:to]), rest[to:]
	}
	a.head, a.body = b[:len(b)-len(rest)], rest
	return a, nil
}

// maxSize bounds the sizes that envelopes name, and maxNode the numbers of nodes.
const (
	maxSize = 1 << 36
	maxNode = 1<<16 - 1
)

// Open returns the value for the bytes of a place. It does not change b; the value may share its bytes. The error wraps
// ErrKeyMissing with the id of the key, or ErrAltered for bytes that were changed, or that belong to another place.
func (p *Pipeline) Open(place Place, b []byte) ([]byte, error) {
	if !IsEnvelope(b) {
		return b, nil
	}
	value, err := p.open(place, b)
	if err != nil {
		return nil, fmt.Errorf("the %s cannot be read: %w", place, err)
	}
	return value, nil
}

func (p *Pipeline) open(place Place, b []byte) ([]byte, error) {
	a, err := Read(b)
	if err != nil {
		return nil, err
	}
	if copied(a.Slot, place.Slot) {
		place.Slot = a.Slot
		if a.Slot == Signal {
			place.Node = 0 // it belongs to the run
		}
	}
	body := a.body
	if a.flags&sealed != 0 {
		if body, err = p.unseal(place, a); err != nil {
			return nil, err
		}
	}
	if a.flags&compressed != 0 {
		if body, err = decompress(body, a.Size); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrAltered, err)
		}
	}
	if len(body) != a.Size {
		return nil, fmt.Errorf("%w: it has %d bytes, not %d", ErrAltered, len(body), a.Size)
	}
	return body, nil
}

func (p *Pipeline) unseal(place Place, a About) ([]byte, error) {
	if a.Slot != place.Slot || a.Node != place.Node {
		return nil, fmt.Errorf("%w: it was the %s", ErrAltered, Place{a.Slot, place.Owner, a.Node})
	}
	var ring *Ring
	if p != nil {
		ring = p.Keys
	}
	key, err := ring.find(a.Key)
	if err != nil {
		return nil, err
	}
	aead, err := key.of(place.Owner)
	if err != nil {
		return nil, err
	}
	value, err := aead.Open(nil, nil, a.body, covered(place.Owner, a.head))
	if err != nil {
		return nil, fmt.Errorf("%w: the seal with key %q does not fit", ErrAltered, a.Key)
	}
	return value, nil
}

// copied are the slots whose values the library copies to the places of others: the payload of a signal that ends a
// wait becomes the result of the wait, and so does the result that an operator gives.
func copied(from, to Slot) bool {
	return from == Signal && (to == Result || to == Step) || from == Result && to == Step
}

// OpenOrMark works like Open. In the place of a value that it cannot open, it returns bytes for which Check returns the
// error.
func (p *Pipeline) OpenOrMark(place Place, b []byte) []byte {
	value, err := p.Open(place, b)
	switch {
	case errors.Is(err, ErrKeyMissing):
		return append([]byte(missing), err.Error()...)
	case err != nil:
		return append([]byte(altered), err.Error()...)
	}
	return value
}

// Exempt returns bytes for which Seal returns the value in the clear, because the library reads it. They are for the
// way to a call alone.
func Exempt(value []byte) []byte { return append([]byte(exempt), value...) }

// Value returns the value for bytes on their way to a call, which Exempt may have returned.
func Value(b []byte) []byte {
	if isExempt(b) {
		return b[len(exempt):]
	}
	return b
}

func isExempt(b []byte) bool { return IsEnvelope(b) && bytes.HasPrefix(b, []byte(exempt)) }

// Check returns the error of OpenOrMark, nil for a value.
func Check(value []byte) error {
	if !IsEnvelope(value) {
		return nil
	}
	if text, is := bytes.CutPrefix(value, []byte(missing)); is {
		return &unreadable{string(text), ErrKeyMissing}
	}
	if text, is := bytes.CutPrefix(value, []byte(altered)); is {
		return &unreadable{string(text), ErrAltered}
	}
	return nil
}

// unreadable is the error of a value that could not be opened.
type unreadable struct {
	text string
	kind error
}

func (e *unreadable) Error() string { return e.text }

func (e *unreadable) Unwrap() error { return e.kind }

// minCompressed is the size in bytes from which on values are compressed: for smaller ones it costs more than it saves.
const minCompressed = 2 << 10

// compressors keeps writers, whose tables are large.
var compressors = sync.Pool{New: func() any {
	w, _ := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed)
	return w
}}

// compress returns a value in a smaller form, or nil if that does not save a tenth.
func compress(value []byte) []byte {
	out := bytes.NewBuffer(make([]byte, 0, len(value)))
	w := compressors.Get().(*gzip.Writer)
	defer compressors.Put(w)
	w.Reset(out)
	_, err := w.Write(value)
	if err == nil {
		err = w.Close()
	}
	if err != nil || out.Len() > len(value)-len(value)/10 {
		return nil
	}
	return out.Bytes()
}

// decompress returns the value of a size for its smaller form.
func decompress(b []byte, size int) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	n, err := io.Copy(&out, io.LimitReader(r, int64(size)+1))
	if err != nil {
		return nil, err
	}
	if n != int64(size) {
		return nil, fmt.Errorf("it has more or less than %d bytes", size)
	}
	return out.Bytes(), nil
}
