package testserver

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Repair is the result of [RepairLog].
type Repair struct {
	// Cut is how many bytes were cut off.
	Cut int64
	// Revived is the number of these bytes that a server would have executed later.
	Revived int64
}

// RepairLog cuts incomplete data from the log of a server that is not running: the rest of a command, and an incomplete
// transaction as a whole. A server without a log needs no repair.
//
// A server that loads a torn log does the same, but with a fault: if the log ends inside a command of a transaction,
// the server executes nothing of that transaction, but leaves its complete commands in the log, and appends its later
// writes. The next time it loads the log, the beginning of the torn transaction merges with the first appended one:
// effects of a call return that had never happened. Redis 7.0.15 and Valkey 8.0.1 have this fault. Their programs
// redis-check-aof and valkey-check-aof, with --fix, cut as this function does.
func RepairLog(dir string) (done Repair, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "appendonlydir", "*.incr.aof"))
	if err != nil || len(files) == 0 {
		return done, err
	}
	newest := slices.MaxFunc(files, func(a, b string) int { return sequence(a) - sequence(b) })
	file, err := os.OpenFile(newest, os.O_RDWR, 0)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return done, err
	}
	whole, inside, err := logEnd(file)
	if err != nil {
		return done, fmt.Errorf("%s: %w", newest, err)
	}
	if whole == info.Size() {
		return done, nil
	}
	done.Cut = info.Size() - whole
	if inside < info.Size() {
		done.Revived = inside - whole
	}
	return done, file.Truncate(whole)
}

// sequence is the number in the name of a log's file: name.number.incr.aof.
func sequence(path string) int {
	parts := strings.Split(filepath.Base(path), ".")
	n, _ := strconv.Atoi(parts[max(0, len(parts)-3)])
	return n
}

// logEnd returns where the last whole command or transaction of a log ends, and where the last whole command does.
func logEnd(log io.Reader) (whole, inside int64, err error) {
	r := &counted{r: bufio.NewReaderSize(log, 1<<20)}
	for open := false; ; {
		name, err := r.command()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return whole, inside, nil
		}
		if err != nil {
			return 0, 0, fmt.Errorf("at %d: %w", r.at, err)
		}
		inside = r.at
		switch {
		case bytes.EqualFold(name, []byte("MULTI")):
			open = true
		case bytes.EqualFold(name, []byte("EXEC")):
			open = false
		}
		if !open {
			whole = inside
		}
	}
}

// counted reads a log and knows where it is.
type counted struct {
	r  *bufio.Reader
	at int64
}

func (c *counted) line(kind byte) (string, error) {
	line, err := c.r.ReadString('\n')
	c.at += int64(len(line))
	if err != nil {
		return "", err
	}
	if len(line) < 3 || line[0] != kind && line[0] != '#' || line[len(line)-2] != '\r' {
		return "", fmt.Errorf("%q is not of a log", line)
	}
	return line[:len(line)-2], nil
}

// command reads one command and returns its name. Of its arguments only the first is kept.
func (c *counted) command() (name []byte, err error) {
	head, err := c.line('*')
	if err != nil {
		return nil, err
	}
	if head[0] == '#' { // a note of the server, with the time
		return nil, nil
	}
	count, err := strconv.Atoi(head[1:])
	if err != nil {
		return nil, err
	}
	for i := range count {
		size, err := c.line('$')
		if err != nil {
			return nil, err
		}
		n, err := strconv.Atoi(size[1:])
		if err != nil {
			return nil, err
		}
		if i == 0 {
			name = make([]byte, n)
			read, err := io.ReadFull(c.r, name)
			c.at += int64(read)
			if err != nil {
				return nil, err
			}
			n = 0
		}
		dropped, err := c.r.Discard(n + len("\r\n"))
		c.at += int64(dropped)
		if err != nil {
			return nil, err
		}
	}
	return name, nil
}
