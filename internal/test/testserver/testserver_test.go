package testserver

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// holdVariable makes the test binary start a shared server, print its address and wait to be killed.
const holdVariable = "FLOWFABRIC_TESTSERVER_HOLD"

func TestMain(m *testing.M) {
	code := m.Run()
	Stop()
	os.Exit(code)
}

func TestRestartKeepsAcknowledgedData(t *testing.T) {
	t.Parallel()
	for _, k := range Servers(t) {
		t.Run(string(k), func(t *testing.T) {
			t.Parallel()
			s := Start(t, Options{Kind: k, Persist: true})
			addr := s.Addr()
			do(t, s, "SET", "kept", "yes")
			s.Kill()
			if _, err := ask(addr, ""); err == nil {
				t.Fatal("server answers after Kill")
			}
			s.Restart()
			if s.Addr() != addr {
				t.Errorf("address changed from %s to %s", addr, s.Addr())
			}
			if got := do(t, s, "GET", "kept"); got != "yes" {
				t.Errorf("kept = %q after Restart", got)
			}
			s.Restart() // of a server that runs
			if got := do(t, s, "GET", "kept"); got != "yes" {
				t.Errorf("kept = %q after the second Restart", got)
			}
		})
	}
}

func TestRestartWithoutPersistIsEmpty(t *testing.T) {
	t.Parallel()
	for _, k := range Servers(t) {
		t.Run(string(k), func(t *testing.T) {
			t.Parallel()
			s := Start(t, Options{Kind: k})
			do(t, s, "SET", "lost", "yes")
			s.Restart()
			if got := do(t, s, "EXISTS", "lost"); got != "0" {
				t.Errorf("EXISTS lost = %s after Restart", got)
			}
		})
	}
}

func TestPassword(t *testing.T) {
	t.Parallel()
	for _, k := range Servers(t) {
		t.Run(string(k), func(t *testing.T) {
			t.Parallel()
			s := Start(t, Options{Kind: k, Password: `p@ss "w/ord`})
			if want := string(k) + "://:p%40ss%20%22w%2Ford@" + s.Addr(); s.URL() != want {
				t.Errorf("URL = %s, want %s", s.URL(), want)
			}
			if _, err := ask(s.Addr(), ""); err == nil || !strings.Contains(err.Error(), "NOAUTH") {
				t.Errorf("without password: %v, want NOAUTH", err)
			}
			s.Kill()
			s.Restart()
			do(t, s, "SET", "k", "v")
		})
	}
}

func TestArgsOverrideDefaults(t *testing.T) {
	t.Parallel()
	for _, k := range Servers(t) {
		t.Run(string(k), func(t *testing.T) {
			t.Parallel()
			s := Start(t, Options{Kind: k, Persist: true, Args: []string{"appendonly no"}})
			if info := do(t, s, "INFO", "persistence"); !strings.Contains(info, "aof_enabled:0") {
				t.Error("appendonly no of Args has no effect")
			}
		})
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	for k, field := range map[Kind]string{Redis: "redis_version:7.", Valkey: "valkey_version:8."} {
		t.Run(string(k), func(t *testing.T) {
			t.Parallel()
			if os.Getenv(variable(k)) != "" {
				t.Skip("the environment selects another server")
			}
			if info := do(t, Shared(t, k), "INFO", "server"); !strings.Contains(info, field) {
				t.Errorf("INFO server lacks %q:\n%s", field, info)
			}
		})
	}
}

func TestSharedIsOnePerKind(t *testing.T) {
	t.Parallel()
	for _, k := range Servers(t) {
		first, second := Shared(t, k), Shared(t, k)
		if first.Addr() != second.Addr() {
			t.Errorf("%s: two servers, %s and %s", k, first.Addr(), second.Addr())
		}
		do(t, first, "SET", "shared", "yes")
		if got := do(t, second, "GET", "shared"); got != "yes" {
			t.Errorf("%s: shared = %q", k, got)
		}
	}
}

func TestServerEndsWithKilledTestProcess(t *testing.T) {
	if os.Getenv(holdVariable) != "" {
		fmt.Println("addr", Shared(t, Kind(os.Getenv(holdVariable))).Addr())
		select {}
	}
	t.Parallel()
	if endWithParent() == nil {
		t.Skip("this system cannot tie a server to its test process")
	}
	for _, k := range Servers(t) {
		t.Run(string(k), func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], "-test.run=^TestServerEndsWithKilledTestProcess$")
			cmd.Env = append(os.Environ(), holdVariable+"="+string(k))
			cmd.Stderr = os.Stderr
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var addr string
			for lines := bufio.NewScanner(out); addr == "" && lines.Scan(); {
				addr, _ = strings.CutPrefix(lines.Text(), "addr ")
			}
			if _, err := ask(addr, ""); err != nil {
				t.Errorf("server of the other process: %v", err)
			}
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			for deadline := time.Now().Add(5 * time.Minute); ; {
				conn, err := net.Dial("tcp", addr)
				if err != nil {
					return
				}
				conn.Close()
				if time.Now().After(deadline) {
					t.Fatalf("%s still answers", addr)
				}
			}
		})
	}
}

func TestUnreadyServerIsReported(t *testing.T) {
	t.Parallel()
	for _, k := range Servers(t) {
		path, ok := Available(k)
		if !ok {
			t.Fatal(Hint(k))
		}
		_, err := newInstance(path, t.TempDir(), Options{Kind: k, Args: []string{"no-such-setting yes"}})
		if err == nil || !strings.Contains(err.Error(), "no-such-setting") {
			t.Errorf("%s: %v, want an error with the server's output", k, err)
		}
	}
}

// TestForeignServerOnPort shows that a foreign server on the chosen port is never taken for the own one.
func TestForeignServerOnPort(t *testing.T) {
	t.Parallel()
	for _, k := range Servers(t) {
		path, ok := Available(k)
		if !ok {
			t.Fatal(Hint(k))
		}
		other := Start(t, Options{Kind: k})
		in := &instance{path: path, dir: t.TempDir(), opts: Options{Kind: k}, port: &port{number: other.port.number}}
		if err := in.run(); err == nil || !strings.Contains(err.Error(), errPortTaken.Error()) {
			t.Errorf("%s: %v, want %v", k, err, errPortTaken)
		}
	}
}

func TestReservedPortsDiffer(t *testing.T) {
	t.Parallel()
	if endWithParent() == nil {
		t.Skip("ports are reserved on Linux only")
	}
	p, err := reservePort()
	if err != nil {
		t.Fatal(err)
	}
	if second, err := claimPort(p.number); err == nil {
		second.Close()
		t.Error("a reserved port could be claimed again")
	}
	p.release()
	// A process that another test is just starting holds on to the claim until it runs its program.
	for deadline := time.Now().Add(5 * time.Minute); ; {
		again, err := claimPort(p.number)
		if err == nil {
			again.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("a released port cannot be claimed: %v", err)
		}
		runtime.Gosched()
	}
}

func TestKinds(t *testing.T) {
	for list, want := range map[string]string{
		"":                   "[embedded redis valkey]",
		"embedded":           "[embedded]",
		"valkey, redis":      "[valkey redis]",
		"redis,redis,valkey": "[redis valkey]",
	} {
		t.Setenv(enginesVariable, list)
		if got := fmt.Sprint(Kinds(t)); got != want {
			t.Errorf("%q: %s, want %s", list, got, want)
		}
	}
	t.Setenv(enginesVariable, "embedded,valkey")
	if got := fmt.Sprint(Servers(t)); got != "[valkey]" {
		t.Errorf("servers: %s", got)
	}
}

func TestAvailable(t *testing.T) {
	dir := t.TempDir()
	script := func(name, output string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("#!/bin/sh\necho '"+output+"'\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Chdir(dir) // so that no cache is found
	t.Setenv("PATH", dir)
	for _, k := range []Kind{Redis, Valkey} {
		t.Setenv(variable(k), "")
	}

	if path, ok := Available(Redis); ok {
		t.Errorf("found %s on an empty PATH", path)
	}
	old := script("redis-server", "Redis server v=6.2.1 sha=0")
	if path, ok := Available(Redis); ok {
		t.Errorf("took Redis 6 at %s", path)
	}
	t.Setenv(variable(Redis), old)
	if path, ok := Available(Redis); !ok || path != old {
		t.Errorf("got %q, %t, want the chosen %s", path, ok, old)
	}
	t.Setenv(variable(Redis), "")
	script("redis-server", "Valkey server v=7.2.5 sha=0")
	if path, ok := Available(Redis); ok {
		t.Errorf("took Valkey at %s for Redis", path)
	}
	redis := script("redis-server", "Redis server v=7.4.2 sha=0")
	if path, ok := Available(Redis); !ok || path != redis {
		t.Errorf("got %q, %t, want %s", path, ok, redis)
	}

	// In a checkout, a server on PATH of another version yields to the unpacked one.
	valkey := script("valkey-server", "Valkey server v=9.0.0 sha=0")
	if err := os.WriteFile("go.mod", []byte("module "+modulePath+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, ".cache", "servers", "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if path, ok := Available(Valkey); ok {
		t.Errorf("took %s", path)
	}
	script(".cache/servers/bin/valkey-server", "Valkey server v=8.1.0 sha=0")
	if path, ok := Available(Valkey); !ok || path == valkey {
		t.Errorf("got %q, %t, want the unpacked one", path, ok)
	}
}

// do sends one command and returns the answer, numbers as text.
func do(t *testing.T, s *Server, args ...string) string {
	t.Helper()
	conn, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	r := bufio.NewReader(conn)
	if s.opts.Password != "" {
		if _, err := call(conn, r, "AUTH", s.opts.Password); err != nil {
			t.Fatal(err)
		}
	}
	answer, err := call(conn, r, args...)
	if err != nil {
		t.Fatalf("%s: %v", args, err)
	}
	return answer
}
