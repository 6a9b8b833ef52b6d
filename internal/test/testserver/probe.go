package testserver

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// ask returns the id of the process that serves addr, or an error while it does not answer or still loads its data. It
// implements the protocol itself, so that no client library adds connections or goroutines that a test would count.
func ask(addr, password string) (pid int, err error) {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(2 * time.Second)); err != nil {
		return 0, err
	}
	r := bufio.NewReader(conn)
	if password != "" {
		if _, err := call(conn, r, "AUTH", password); err != nil {
			return 0, err
		}
	}
	if _, err := call(conn, r, "PING"); err != nil {
		return 0, err
	}
	info, err := call(conn, r, "INFO", "server")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(info) {
		if id, ok := strings.CutPrefix(line, "process_id:"); ok {
			return strconv.Atoi(strings.TrimSpace(id))
		}
	}
	return 0, errors.New("server does not return its process id")
}

func call(w io.Writer, r *bufio.Reader, args ...string) (string, error) {
	var request strings.Builder
	fmt.Fprintf(&request, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&request, "$%d\r\n%s\r\n", len(arg), arg)
	}
	if _, err := io.WriteString(w, request.String()); err != nil {
		return "", err
	}
	return answer(r)
}

// answer reads an answer as text, a list as lines.
func answer(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimRight(line, "\r\n")
	switch {
	case strings.HasPrefix(line, "+"), strings.HasPrefix(line, ":"):
		return line[1:], nil
	case strings.HasPrefix(line, "-"):
		return "", errors.New(line[1:])
	case strings.HasPrefix(line, "*"):
		return lines(r, line[1:])
	case !strings.HasPrefix(line, "$"):
		return "", fmt.Errorf("unexpected answer %q", line)
	}
	size, err := strconv.Atoi(line[1:])
	if err != nil || size < 0 {
		return "", fmt.Errorf("unexpected answer %q", line)
	}
	text := make([]byte, size+2)
	if _, err := io.ReadFull(r, text); err != nil {
		return "", err
	}
	return string(text[:size]), nil
}

func lines(r *bufio.Reader, count string) (string, error) {
	n, err := strconv.Atoi(count)
	if err != nil {
		return "", fmt.Errorf("unexpected answer *%q", count)
	}
	var list []string
	for range n {
		text, err := answer(r)
		if err != nil {
			return "", err
		}
		list = append(list, text)
	}
	return strings.Join(list, "\n"), nil
}
