package datatype

import (
	"slices"
	"strings"
	"unsafe"
)

// Bytes is a string value that is changed in place, so that writing a few bytes of a long value does not copy the
// value. It never shares memory with a string that a caller holds: Slice copies, and Freeze ends the use of the Bytes.
type Bytes struct{ b []byte }

// NewBytes returns a copy of s with room for size bytes, if that is more.
func NewBytes(s string, size int) *Bytes {
	return &Bytes{append(make([]byte, 0, max(len(s), size)), s...)}
}

// Len returns the number of bytes.
func (v *Bytes) Len() int { return len(v.b) }

// Cap returns the number of bytes of memory that the value takes.
func (v *Bytes) Cap() int { return cap(v.b) }

// Slice returns a copy of the bytes from lo up to hi.
func (v *Bytes) Slice(lo, hi int) string { return string(v.b[lo:hi]) }

// WriteAt overwrites the bytes from at on with s. The value grows as needed; zero bytes fill the gap that this leaves.
func (v *Bytes) WriteAt(at int, s string) {
	old, end := len(v.b), at+len(s)
	if end > old {
		v.b = slices.Grow(v.b, end-old)[:end]
		if at > old {
			clear(v.b[old:at])
		}
	}
	copy(v.b[at:], s)
}

// View returns the bytes as a string without copying them. It is valid until the value changes, so it may not be kept.
func (v *Bytes) View() string { return unsafe.String(unsafe.SliceData(v.b), len(v.b)) }

// Freeze returns the bytes as a string that may be kept. It copies them only to get rid of much unused memory. The
// value may not be used afterwards.
func (v *Bytes) Freeze() string {
	s := v.View()
	if cap(v.b)-len(v.b) > len(v.b)/4 {
		s = strings.Clone(s)
	}
	v.b = nil
	return s
}

// Clone returns a copy of the value.
func (v *Bytes) Clone() *Bytes { return NewBytes(v.View(), 0) }
