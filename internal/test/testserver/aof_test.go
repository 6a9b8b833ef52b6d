package testserver

import (
	"os"
	"path/filepath"
	"testing"
)

// After a kill within a transaction, nothing of it is left, however often the server is restarted.
func TestTornTransactionIsGone(t *testing.T) {
	t.Parallel()
	const torn = "*1\r\n$5\r\nMULTI\r\n*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n"
	for name, tail := range map[string]struct {
		text      string
		cut, back int64
	}{
		"inside of a command": {text: torn + "*2\r\n$4\r\nIN", cut: int64(len(torn)) + 10, back: int64(len(torn))},
		"between commands":    {text: torn, cut: int64(len(torn))},
		"outside of one":      {text: "*2\r\n$4\r\nINCR\r\n$1", cut: 16},
		"nothing":             {},
	} {
		for _, k := range Servers(t) {
			t.Run(string(k)+" "+name, func(t *testing.T) {
				t.Parallel()
				s := Start(t, Options{Kind: k, Persist: true})
				do(t, s, "SET", "n", "1")
				s.Kill()
				tear(t, s, tail.text)
				repair, err := RepairLog(s.dir)
				if want := (Repair{Cut: tail.cut, Revived: tail.back}); err != nil || repair != want {
					t.Fatalf("repair = %+v, %v, want %+v", repair, err, want)
				}
				s.Restart()
				do(t, s, "EVAL", "redis.call('INCR', KEYS[1]) return redis.call('INCR', KEYS[1])", "1", "other")
				s.Restart()
				if got := do(t, s, "GET", "n"); got != "1" {
					t.Errorf("n = %s after the second restart, want 1", got)
				}
				if got := do(t, s, "GET", "other"); got != "2" {
					t.Errorf("other = %s after the second restart, want 2", got)
				}
			})
		}
	}
}

// Servers without [RepairLog] revive a torn transaction.
func TestServersReviveTornTransactions(t *testing.T) {
	t.Parallel()
	for _, k := range Servers(t) {
		t.Run(string(k), func(t *testing.T) {
			t.Parallel()
			s := Start(t, Options{Kind: k, Persist: true, KeepTorn: true})
			do(t, s, "SET", "n", "1")
			s.Kill()
			tear(t, s, "*1\r\n$5\r\nMULTI\r\n*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n*2\r\n$4\r\nIN")
			s.Restart()
			if got := do(t, s, "GET", "n"); got != "1" {
				t.Fatalf("n = %s after the first restart, want 1", got)
			}
			do(t, s, "EVAL", "redis.call('INCR', KEYS[1]) return redis.call('INCR', KEYS[1])", "1", "other")
			s.Restart()
			switch got := do(t, s, "GET", "n"); got {
			case "2":
			case "1":
				t.Logf("%s no longer has the fault", s.path)
			default:
				t.Errorf("n = %s after the second restart", got)
			}
		})
	}
}

// tear appends to the log of a server that does not run.
func tear(t *testing.T, s *Server, tail string) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(s.dir, "appendonlydir", "*.incr.aof"))
	if err != nil || len(logs) != 1 {
		t.Fatalf("logs %q, %v", logs, err)
	}
	file, err := os.OpenFile(logs[0], os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString(tail); err != nil {
		t.Fatal(err)
	}
}
