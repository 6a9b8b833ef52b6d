package record

import "bufio"

// Writer packs commands into records of about a megabyte. The first error stays: commands after it are not written.
type Writer struct {
	w      *bufio.Writer
	record []byte
	seq    uint64
	err    error
}

// NewWriter returns a Writer whose first record has the sequence number seq.
func NewWriter(w *bufio.Writer, seq uint64) *Writer {
	return &Writer{w: w, record: Start(nil), seq: seq}
}

// Err returns the first error.
func (w *Writer) Err() error { return w.err }

// Add writes one command.
func (w *Writer) Add(words ...string) {
	w.record = AppendCommand(w.record, words)
	if len(w.record) > 1<<20 {
		w.endRecord()
	}
}

// AddItems writes a command with any number of items as several commands. No pair of items is torn apart.
func (w *Writer) AddItems(verb, key string, items []string) {
	const piece = 1024 // even, as some items are pairs
	for len(items) > 0 {
		n := min(len(items), piece)
		w.Add(append([]string{verb, key}, items[:n]...)...)
		items = items[n:]
	}
}

// Flush ends the last record, writes everything that is buffered, and returns the first error.
func (w *Writer) Flush() error {
	w.endRecord()
	if w.err == nil {
		w.err = w.w.Flush()
	}
	return w.err
}

func (w *Writer) endRecord() {
	if len(w.record) == HeaderSize {
		return
	}
	Seal(w.record, w.seq)
	w.seq++
	if w.err == nil {
		_, w.err = w.w.Write(w.record)
	}
	w.record = Start(w.record)
}
