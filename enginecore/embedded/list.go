package embedded

// list is a double-ended queue of strings with cheap pushes and pops at both ends.
type list struct {
	buf  []string
	head int // index of the first element in buf
}

func (l *list) len() int           { return len(l.buf) - l.head }
func (l *list) items() []string    { return l.buf[l.head:] }
func (l *list) pushBack(v string)  { l.buf = append(l.buf, v) }
func (l *list) replace(v []string) { l.buf, l.head = v, 0 }

func (l *list) pushFront(v string) {
	if l.head == 0 {
		room := l.len() + 8
		buf := make([]string, room+l.len())
		copy(buf[room:], l.buf)
		l.buf, l.head = buf, room
	}
	l.head--
	l.buf[l.head] = v
}

func (l *list) popFront() string {
	v := l.buf[l.head]
	l.buf[l.head] = ""
	l.head++
	if l.head > 32 && l.head > len(l.buf)/2 {
		l.replace(append([]string(nil), l.items()...))
	}
	return v
}

func (l *list) popBack() string {
	n := len(l.buf) - 1
	v := l.buf[n]
	l.buf[n] = ""
	l.buf = l.buf[:n]
	return v
}
