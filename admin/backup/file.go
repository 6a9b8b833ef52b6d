package backup

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"
	"os"
	"path/filepath"

	"github.com/flowfabric/flowfabric-go/internal/keycopy"
)

// The form of a file, compressed by gzip: a line with the form, the header in JSON, pieces of keys, and the end in JSON
// with counts and the SHA-256 of all before it. Texts have their lengths in front, as unsigned varints.
const (
	formLine = "flowfabric backup 1\n"
	tagPiece = 1
	tagEnd   = 2
	bitFirst = 1
	bitLast  = 2
	// maxText and maxItems bound lengths before they are believed.
	maxText  = 1 << 30
	maxItems = 1 << 26
)

// ending is what stands at the end of a file.
type ending struct {
	Keys   int    `json:"keys"`
	Bytes  int64  `json:"bytes"`
	Digest string `json:"digest"`
	SHA256 string `json:"sha256"`
}

// writer writes a file. The first error stays.
type writer struct {
	file   *os.File
	packed *gzip.Writer
	sum    hash.Hash
	out    *bufio.Writer
	number []byte
}

// newWriter creates a file that is not there yet under a temporary name beside it.
func newWriter(path string) (*writer, error) {
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp") // which only the owner can read
	if err != nil {
		return nil, err
	}
	packed, err := gzip.NewWriterLevel(file, gzip.BestSpeed)
	if err != nil {
		return nil, errors.Join(err, file.Close(), os.Remove(file.Name()))
	}
	w := &writer{file: file, packed: packed, sum: sha256.New()}
	w.out = bufio.NewWriterSize(io.MultiWriter(packed, w.sum), 1<<16)
	return w, nil
}

func (w *writer) text(text string) {
	w.uvarint(uint64(len(text)))
	_, _ = w.out.WriteString(text) // Flush returns the error
}

func (w *writer) uvarint(n uint64) {
	w.number = binary.AppendUvarint(w.number[:0], n)
	_, _ = w.out.Write(w.number)
}

func (w *writer) begin(info Info) error {
	text, err := json.Marshal(info)
	if err != nil {
		return err
	}
	_, _ = w.out.WriteString(formLine)
	w.text(string(text))
	return nil
}

func (w *writer) piece(p keycopy.Piece) error {
	bits := byte(0)
	if p.First {
		bits |= bitFirst
	}
	if p.Last {
		bits |= bitLast
	}
	_, err := w.out.Write([]byte{tagPiece, bits})
	w.text(p.Key)
	w.text(string(p.Kind))
	w.uvarint(uint64(p.ExpireAt))
	if p.Kind == keycopy.Stream {
		w.text(p.Stream.LastID)
		w.text(p.Stream.MaxDeletedID)
		w.text(p.Stream.Added)
	}
	w.uvarint(uint64(len(p.Items)))
	for _, item := range p.Items {
		w.text(item)
	}
	return err
}

// finish completes the file, and gives it its name when it is on disk.
func (w *writer) finish(path string, e ending) (ending, error) {
	if err := w.out.Flush(); err != nil {
		return e, err
	}
	e.SHA256 = hex.EncodeToString(w.sum.Sum(nil))
	text, err := json.Marshal(e)
	if err != nil {
		return e, err
	}
	_ = w.out.WriteByte(tagEnd)
	w.text(string(text))
	if err := errors.Join(w.out.Flush(), w.packed.Close(), w.file.Sync(), w.file.Close()); err != nil {
		return e, err
	}
	if err := os.Rename(w.file.Name(), path); err != nil {
		return e, err
	}
	return e, syncDirectory(filepath.Dir(path))
}

// drop removes what was written.
func (w *writer) drop() {
	_ = w.file.Close()
	_ = os.Remove(w.file.Name())
}

func syncDirectory(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	_ = d.Sync() // not every file system has it
	return d.Close()
}

// reader reads a file from its beginning. Texts that it returns are checked by their form alone: the checksum is at the
// end.
type reader struct {
	in  *bufio.Reader
	sum hash.Hash
}

// open opens a file and reads its header.
func open(path string) (*os.File, *reader, Info, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, Info{}, err
	}
	r, info, err := newReader(file)
	if err != nil {
		return nil, nil, Info{}, errors.Join(damaged(err), file.Close())
	}
	return file, r, info, nil
}

func newReader(file io.Reader) (*reader, Info, error) {
	packed, err := gzip.NewReader(bufio.NewReader(file))
	if err != nil {
		return nil, Info{}, err
	}
	r := &reader{in: bufio.NewReaderSize(packed, 1<<16), sum: sha256.New()}
	line := make([]byte, len(formLine))
	if _, err := io.ReadFull(r.in, line); err != nil {
		return nil, Info{}, err
	}
	if string(line) != formLine {
		return nil, Info{}, fmt.Errorf("it begins with %q instead of %q: it is no backup, or one of a later version",
			line, formLine)
	}
	r.sum.Write(line)
	text, err := r.text()
	if err != nil {
		return nil, Info{}, err
	}
	var info Info
	if err := json.Unmarshal([]byte(text), &info); err != nil {
		return nil, Info{}, fmt.Errorf("header: %w", err)
	}
	return r, info, nil
}

func damaged(err error) error {
	switch {
	case err == nil, errors.Is(err, ErrDamaged), errors.Is(err, context.Canceled),
		errors.Is(err, context.DeadlineExceeded):
		return err
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}

func (r *reader) byte() (byte, error) {
	b, err := r.in.ReadByte()
	if err == nil {
		r.sum.Write([]byte{b})
	}
	return b, err
}

// ReadByte implements io.ByteReader, for numbers.
func (r *reader) ReadByte() (byte, error) { return r.byte() }

func (r *reader) uvarint(most uint64) (uint64, error) {
	n, err := binary.ReadUvarint(r)
	if err == nil && n > most {
		err = fmt.Errorf("a length of %d", n)
	}
	return n, err
}

func (r *reader) text() (string, error) {
	n, err := r.uvarint(maxText)
	if err != nil {
		return "", err
	}
	var text bytes.Buffer // grows with what is there, whatever the length says
	if _, err := io.CopyN(io.MultiWriter(&text, r.sum), r.in, int64(n)); err != nil {
		return "", err
	}
	return text.String(), nil
}

// next reads a piece, or the end.
func (r *reader) next() (p keycopy.Piece, end *ending, err error) {
	before := r.sum.Sum(nil)
	tag, err := r.byte()
	if err != nil {
		return p, nil, err
	}
	switch tag {
	case tagPiece:
		p, err = r.piece()
		return p, nil, err
	case tagEnd:
		text, err := r.text()
		if err != nil {
			return p, nil, err
		}
		end = &ending{}
		if err := json.Unmarshal([]byte(text), end); err != nil {
			return p, nil, fmt.Errorf("end: %w", err)
		}
		if end.SHA256 != hex.EncodeToString(before) {
			return p, nil, errors.New("the checksum does not match")
		}
		if _, err := r.in.ReadByte(); !errors.Is(err, io.EOF) {
			return p, nil, errors.New("something follows the end")
		}
		return p, end, nil
	}
	return p, nil, fmt.Errorf("an entry of type %d", tag)
}

func (r *reader) piece() (p keycopy.Piece, err error) {
	bits, err := r.byte()
	if err != nil {
		return p, err
	}
	p.First, p.Last = bits&bitFirst != 0, bits&bitLast != 0
	texts := []*string{&p.Key, (*string)(&p.Kind)}
	for _, to := range texts {
		if *to, err = r.text(); err != nil {
			return p, err
		}
	}
	expires, err := r.uvarint(1<<63 - 1)
	if err != nil {
		return p, err
	}
	p.ExpireAt = int64(expires)
	if p.Kind == keycopy.Stream {
		for _, to := range []*string{&p.Stream.LastID, &p.Stream.MaxDeletedID, &p.Stream.Added} {
			if *to, err = r.text(); err != nil {
				return p, err
			}
		}
	}
	items, err := r.uvarint(maxItems)
	for i := uint64(0); i < items && err == nil; i++ {
		var item string
		item, err = r.text()
		p.Items = append(p.Items, item)
	}
	return p, err
}

// source is a file as the source of a copy.
type source struct{ path string }

// Pieces implements keycopy.Source.
func (s source) Pieces(ctx context.Context) iter.Seq2[keycopy.Piece, error] {
	return func(yield func(keycopy.Piece, error) bool) {
		file, r, _, err := open(s.path)
		if err != nil {
			yield(keycopy.Piece{}, err)
			return
		}
		defer file.Close()
		for {
			p, end, err := r.next()
			if err == nil {
				err = ctx.Err()
			}
			if end != nil && err == nil || !yield(p, damaged(err)) || err != nil {
				return
			}
		}
	}
}

// Pieces implements keycopy.Source.
func (s sequence) Pieces(context.Context) iter.Seq2[keycopy.Piece, error] {
	return iter.Seq2[keycopy.Piece, error](s)
}
