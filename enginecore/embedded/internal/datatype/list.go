package datatype

// List is a double-ended queue of strings with cheap pushes and pops at both ends.
type List struct {
	buf  []string
	head int // index of the first element in buf
}

// Len returns the number of elements.
func (l *List) Len() int { return len(l.buf) - l.head }

// Items returns the elements. They are shared with the list, and valid until it changes.
func (l *List) Items() []string { return l.buf[l.head:] }

// Set replaces the element at an index.
func (l *List) Set(i int, v string) { l.buf[l.head+i] = v }

// PushBack adds an element at the end.
func (l *List) PushBack(v string) { l.buf = append(l.buf, v) }

// Replace sets the elements. It keeps v.
func (l *List) Replace(v []string) { l.buf, l.head = v, 0 }

// PushFront adds an element at the front.
func (l *List) PushFront(v string) {
	if l.head == 0 {
		room := l.Len() + 8
		buf := make([]string, room+l.Len())
		copy(buf[room:], l.buf)
		l.buf, l.head = buf, room
	}
	l.head--
	l.buf[l.head] = v
}

// PopFront removes and returns the first element of a list that is not empty.
func (l *List) PopFront() string {
	v := l.buf[l.head]
	l.buf[l.head] = ""
	l.head++
	l.shrink()
	return v
}

// Trim keeps the elements from lo up to hi only. Its cost is proportional to the elements that it removes.
func (l *List) Trim(lo, hi int) {
	lo, hi = l.head+lo, l.head+hi
	clear(l.buf[l.head:lo])
	clear(l.buf[hi:])
	l.buf, l.head = l.buf[:hi], lo
	l.shrink()
}

// shrink gives memory back once more than half of it is in front of the first element.
func (l *List) shrink() {
	if l.head > 32 && l.head > len(l.buf)/2 {
		l.Replace(append([]string(nil), l.Items()...))
	}
}

// PopBack removes and returns the last element of a list that is not empty.
func (l *List) PopBack() string {
	n := len(l.buf) - 1
	v := l.buf[n]
	l.buf[n] = ""
	l.buf = l.buf[:n]
	return v
}

// Clone returns a copy of the list.
func (l *List) Clone() *List { return &List{buf: append([]string(nil), l.Items()...)} }
