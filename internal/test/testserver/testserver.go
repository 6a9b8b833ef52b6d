package testserver

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Options describe a server that [Start] runs.
type Options struct {
	// Kind is Redis or Valkey.
	Kind Kind

	// Persist makes the server write every command to disk before it answers (appendonly with
	// appendfsync always), so nothing it acknowledged is lost by [Server.Kill]. Without it a
	// restarted server is empty.
	Persist bool

	// KeepTorn makes [Server.Restart] leave the log as a kill has left it, see [RepairLog].
	KeepTorn bool

	// Sentinel makes the server watch others instead of holding data.
	Sentinel bool

	// Password is the password for clients. Defaults to none.
	Password string

	// Clock lets [Server.SetClock] set the clock of the server. It needs a C compiler, see [CanSetClocks].
	Clock bool

	// Args are further lines of the server's configuration file, such as "maxmemory 50mb".
	// They override the other options.
	Args []string
}

// Server is a running server. Its methods are safe to call together, except that [Server.Kill]
// and [Server.Restart] belong to one goroutine at a time.
type Server struct {
	tb     testing.TB
	shared bool
	*instance
}

// Start runs a server on a free loopback port and returns once it answers. It stops with the test.
func Start(tb testing.TB, o Options) *Server {
	tb.Helper()
	path := require(tb, o.Kind)
	in, err := newInstance(path, tb.TempDir(), o)
	if err != nil {
		tb.Fatalf("testserver: %v", err)
	}
	tb.Cleanup(in.close)
	return &Server{tb: tb, instance: in}
}

// Program is a server that a program other than a test runs.
type Program struct{ server Server }

// Run runs a server for a program other than a test. Close ends it; at the latest it ends with the program.
func Run(o Options) (*Program, error) {
	path, ok := Available(o.Kind)
	if !ok {
		return nil, fmt.Errorf("testserver: no %s found: run `make servers`, or %s", program(o.Kind), Hint(o.Kind))
	}
	dir, err := os.MkdirTemp("", "flowfabric-"+string(o.Kind)+"-")
	if err != nil {
		return nil, fmt.Errorf("testserver: %w", err)
	}
	in, err := newInstance(path, dir, o)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("testserver: %w", err), os.RemoveAll(dir))
	}
	return &Program{Server{instance: in}}, nil
}

// URL returns the address as redis:// or valkey:// URL.
func (p *Program) URL() string { return p.server.URL() }

// Close ends the server and removes its folder.
func (p *Program) Close() error {
	p.server.close()
	return os.RemoveAll(p.server.dir)
}

// shared holds the servers of this process.
var shared struct {
	sync.Mutex
	instances map[Kind]*instance
}

// Shared returns the one server of kind k that all tests of this process have in common. It keeps
// nothing on disk. Tests use their own key prefix on it and never flush, kill or reconfigure it.
//
// It runs until [Stop] or the end of the process.
func Shared(tb testing.TB, k Kind) *Server {
	tb.Helper()
	path := require(tb, k)
	shared.Lock()
	defer shared.Unlock()
	in := shared.instances[k]
	if in != nil && in.exited() {
		in.close()
		in = nil
	}
	if in == nil {
		var err error
		if in, err = newShared(path, k); err != nil {
			tb.Fatalf("testserver: %v", err)
		}
		if shared.instances == nil {
			shared.instances = make(map[Kind]*instance)
		}
		shared.instances[k] = in
	}
	return &Server{tb: tb, shared: true, instance: in}
}

// newShared runs a server in a folder that is deleted once the server is ready, so that a process which ends without
// [Stop] leaves no files.
func newShared(path string, k Kind) (*instance, error) {
	dir, err := os.MkdirTemp("", "flowfabric-"+string(k)+"-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	return newInstance(path, dir, Options{Kind: k, Args: []string{"databases " + strconv.Itoa(sharedDatabases)}})
}

// sharedDatabases is how many databases a shared server has. It is more than a package has tests.
const sharedDatabases = 4096

// Database returns the URL of a database of the shared server that no other caller gets. A search for its keys does not
// read the keys of other tests; messages are shared by the whole server.
func Database(tb testing.TB, k Kind) string {
	tb.Helper()
	server := Shared(tb, k)
	return server.URL() + "/" + strconv.Itoa(int(server.databases.Add(1)-1)%(sharedDatabases-1)+1)
}

// Stop ends the servers of [Shared]. A TestMain calls it before it looks for leaked goroutines; a
// process that just ends need not call it. A later Shared starts new servers.
func Stop() {
	shared.Lock()
	defer shared.Unlock()
	for _, in := range shared.instances {
		in.close()
	}
	clear(shared.instances)
	stopClusters()
}

// require returns the program for k, or ends the test.
func require(tb testing.TB, k Kind) string {
	tb.Helper()
	if k != Redis && k != Valkey {
		tb.Fatalf("testserver: %q is not a server", k)
	}
	kinds := Kinds(tb)
	if !slices.Contains(kinds, k) && (k != Valkey || !slices.Contains(kinds, OnCluster)) {
		tb.Skipf("testserver: %s=%s leaves out %s", enginesVariable, os.Getenv(enginesVariable), k)
	}
	path, ok := Available(k)
	if !ok {
		tb.Fatalf("testserver: no %s found: run `make servers`, or %s", program(k), Hint(k))
	}
	return path
}

// Addr returns host:port.
func (s *Server) Addr() string { return s.addr() }

// URL returns the address as redis:// or valkey:// URL, with the password if there is one.
func (s *Server) URL() string {
	u := url.URL{Scheme: string(s.opts.Kind), Host: s.addr()}
	if s.opts.Password != "" {
		u.User = url.UserPassword("", s.opts.Password)
	}
	return u.String()
}

// Kill ends the server with SIGKILL and returns when it has ended. It has no effect on an ended server.
func (s *Server) Kill() {
	s.tb.Helper()
	s.own("Kill")
	s.kill()
}

// Restart runs the server again on the same port and folder and returns when it has loaded its
// data. A server that still runs is killed first, and a log that was torn by a kill is repaired. It must be called from
// the test's goroutine.
func (s *Server) Restart() {
	s.tb.Helper()
	s.own("Restart")
	s.kill()
	s.repair()
	if err := s.run(); err != nil {
		s.tb.Fatalf("testserver: restart: %v", err)
	}
}

func (s *Server) repair() {
	s.tb.Helper()
	if s.opts.KeepTorn {
		return
	}
	done, err := RepairLog(s.dir)
	if err != nil {
		s.tb.Fatalf("testserver: repair the log: %v", err)
	}
	if done.Cut > 0 {
		s.tb.Logf("testserver: the kill has torn the log: %d bytes cut, of which %d would have come back", done.Cut, done.Revived)
	}
}

// Dir is the folder of the server, with its log in appendonlydir.
func (s *Server) Dir() string { return s.dir }

func (s *Server) own(method string) {
	s.tb.Helper()
	if s.shared {
		s.tb.Fatalf("testserver: %s of a shared server: other tests are using it", method)
	}
}

// config returns the server's configuration file.
func config(o Options, port int, dir string) string {
	lines := []string{
		"bind 127.0.0.1",
		"port " + strconv.Itoa(port),
		"dir " + strconv.Quote(dir),
		`save ""`,
		"enable-debug-command local",
	}
	if o.Persist {
		lines = append(lines, "appendonly yes", "appendfsync always")
	}
	if o.Password != "" {
		lines = append(lines, "requirepass "+strconv.Quote(o.Password))
	}
	return strings.Join(append(lines, o.Args...), "\n") + "\n"
}

func writeConfig(o Options, port int, dir string) (path string, err error) {
	path = filepath.Join(dir, "server.conf")
	if err := os.WriteFile(path, []byte(config(o, port, dir)), 0o600); err != nil {
		return "", fmt.Errorf("write configuration: %w", err)
	}
	return path, nil
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// Alive reports whether the server's process runs.
func (s *Server) Alive() bool { return !s.exited() }
